# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# torch.bincount(x, minlength=4) times a weight, as PyTorch's newer exporter
# writes it: counts.py FOLDER ABOVE. Among max(4, largest + ABOVE) zeros it
# counts; torch has ABOVE 1. Data that count 1, 3, 1 and 1 (data), and with a
# negative number (negative), which torch refuses.

import os
import struct
import sys

from onnxfile import *

folder, above = sys.argv[1], int(sys.argv[2])
nodes = [node("Concat", ["ids", "first"], ["more"], axis=0),
         node("ReduceMax", ["more"], ["largest"], keepdims=0),
         node("Unsqueeze", ["largest", "first"], ["list"]),
         node("Size", ["ids"], ["size"]),
         node("Greater", ["size", "nothing"], ["any"]),
         node("Cast", ["any"], ["one"], to=INT64),
         node("Unsqueeze", ["one", "first"], ["factor"]),
         node("Add", ["list", "above"], ["depth"]),
         node("Mul", ["depth", "factor"], ["found"]),
         node("Max", ["found", "least"], ["length"]),
         node("Expand", ["nothing", "length"], ["zeros"], "zeros"),
         node("Shape", ["ids"], ["shape"]),
         node("Expand", ["unit", "shape"], ["ones"]),
         node("ScatterElements", ["zeros", "ids", "ones"], ["counts"], "counts",
              axis=0, reduction="add"),
         node("Cast", ["counts"], ["floats"], to=1),
         node("Mul", ["floats", "weight"], ["product"]),
         node("ReduceSum", ["product"], ["loss"], keepdims=0)]
os.makedirs(folder, exist_ok=True)
write(model(graph(nodes, [value("ids", [6], INT64)], [value("loss", [])],
                  [int64s("first", [0]), int64s("above", [above]), int64s("least", [4]),
                   tensor("nothing", [], INT64, ints=[0]), tensor("unit", [], INT64, ints=[1]),
                   tensor("weight", [4], floats=[0.5, 1.0, 2.0, 4.0])])),
      folder + "/m.onnx")
for name, ids in (("data", [0, 1, 1, 3, 2, 1]), ("negative", [0, 1, 1, -1, 2, 1])):
    header = b'{"ids":{"dtype":"I64","shape":[6],"data_offsets":[0,48]}}'
    with open(f"{folder}/{name}.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + struct.pack("<6q", *ids))
