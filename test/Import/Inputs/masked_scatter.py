# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Rows that take the places of a mask in their order: masked_scatter.py FOLDER
# KIND [SELECTED], and inputs in which so many of four places are selected.
#
#   elements  x.masked_scatter(mask[:, None].expand_as(x), found)
#   rows      x[mask] = found, as PyTorch's newer exporter writes it
#   given     the same, of updates whose number is known
#   row       x[mask] = row, as PyTorch's older exporter writes it
#   scalars   x.masked_scatter(mask, found), of a mask of all elements

import os
import struct
import sys

from onnxfile import *

folder, kind = sys.argv[1], sys.argv[2]
selected = int(sys.argv[3]) if len(sys.argv) > 3 else 2
all_elements = kind == "scalars"
nodes = [node("Greater", ["m", "nothing"], ["mask"], "mask")]
if not all_elements:
    nodes += [node("Unsqueeze", ["mask", "last"], ["column"]),
              node("Expand", ["column", "shape"], ["chosen"])]
nodes += [node("NonZero", ["mask" if all_elements else "chosen"], ["places"], "places"),
          node("Transpose", ["places"], ["index"], perm=[1, 0])]
if kind == "given":
    nodes += [node("Reshape", ["found", "flat"], ["updates"])]
elif kind == "rows":
    nodes += [node("Cast", ["mask"], ["ones"], to=INT64),
              node("ReduceSum", ["ones"], ["many"], keepdims=1),
              node("Concat", ["many", "width"], ["sizes"], axis=0),
              node("Expand", ["found", "sizes"], ["wide"]),
              node("Reshape", ["wide", "flat"], ["updates"])]
else:
    nodes += [node("Reshape", ["found", "flat"], ["line"]),
              node("Shape", ["index"], ["size"]),
              node("Gather", ["size", "first"], ["many"], axis=0),
              node("Slice", ["line", "first", "many", "first"], ["updates"])]
nodes += [node("ScatterND", ["x", "index", "updates"], ["put"], "put"),
          node("Mul", ["put", "weight"], ["y"])]
os.makedirs(folder, exist_ok=True)
mask = [4, 2] if all_elements else [4]
found = [1, 2] if kind == "row" else [2, 2]
write(model(graph(nodes, [value("x", [4, 2]), value("m", mask), value("found", found)], [value("y", [4, 2])],
                  [int64s("last", [-1]), int64s("flat", [-1]), int64s("first", [0]), int64s("width", [2]),
                   int64s("shape", [4, 2]), tensor("nothing", [], floats=[0.0]),
                   tensor("weight", [4, 2], floats=[float(i) for i in range(1, 9)])])),
      folder + "/m.onnx")


def save(name, shape, numbers):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % (tuple(shape),)
    header += " " * (117 - len(header)) + "\n"
    with open("%s/%s.npy" % (folder, name), "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack("<%df" % len(numbers), *numbers))


places = 8 if all_elements else 4
# The last ones.
save("m", mask, [float(i >= places - selected) for i in range(places)])
save("x", [4, 2], [-1.0] * 8)
save("found", found, [10.0, 20.0, 30.0, 40.0][:2 * found[0]])
