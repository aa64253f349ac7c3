# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Tensors of indices as PyTorch's older exporter writes them:
# legacy_indices.py FOLDER KIND, a model and its data.
#
#   pairs    weight[i, j] of a [2, 3] matrix
#   triples  weight[i, j, k] of a [2, 2, 3] one
#   own      weight.flatten(0, 1)[i * 3 + j], which no axis of its own ends
#   put      weight.index_put((i,), y, accumulate=True)
#
# The loss is the sum of squares of what is chosen, so that each element's
# gradient says which it was.

import os
import struct
import sys

from onnxfile import *

folder, kind = sys.argv[1], sys.argv[2]
indices = {"i": [0, 1, 1, -1], "j": [-1, 0, 2, -3]}
shape = [2, 3]
if kind in ("triples", "own"):
    shape = [2, 2, 3] if kind == "triples" else [2, 3, 1]
if kind == "triples":
    indices = {"i": [0, 1, -1, -1], "j": [-1, 0, 1, -2], "k": [2, -1, -2, -3]}
if kind == "put":
    indices, shape = {"i": [0, 1, 1, -1]}, [4]


def size(axis, name):
    return [node("Gather", ["shape", f"at{axis}"], [name], axis=0)]


initializers = [tensor("weight", shape, floats=[float(n + 1) for n in range(
    4 if kind == "put" else 12 if kind == "triples" else 6)])]
initializers += [int64s(f"at{axis}", [axis]) for axis in range(3)]
nodes = [node("Shape", ["weight"], ["shape"])]
if kind == "put":
    nodes += [node("Unsqueeze", ["i", "last"], ["column"]),
              node("ConstantOfShape", ["shape"], ["zeros"],
                   value=tensor("", [1], floats=[0.0])),
              node("ScatterND", ["zeros", "column", "ones"], ["put"]),
              node("Add", ["weight", "put"], ["chosen"])]
    initializers += [int64s("last", [-1]),
                     tensor("ones", [4], floats=[1.0, 2.0, 4.0, 8.0])]
else:
    nodes += [node("Flatten", ["weight"], ["flat"], axis=len(indices))]
    if kind == "triples":
        nodes += size(2, "size2") + size(1, "size1") + [
            node("Mul", ["j", "size2"], ["before"]),
            node("Add", ["k", "before"], ["inner"]),
            node("Mul", ["size2", "size1"], ["stride"]),
            node("Mul", ["i", "stride"], ["outer"]),
            node("Add", ["inner", "outer"], ["at"])]
    else:
        stride = "three" if kind == "own" else "size1"
        nodes += ([] if kind == "own" else size(1, "size1")) + [
            node("Mul", ["i", stride], ["outer"]),
            node("Add", ["j", "outer"], ["at"])]
        initializers += [tensor("three", [], INT64, raw=struct.pack("<q", 3))]
    nodes += [node("Gather", ["flat", "at"], ["chosen"], axis=0)]
nodes += [node("Mul", ["chosen", "chosen"], ["squares"]),
          node("ReduceSum", ["squares"], ["loss"], keepdims=0)]
os.makedirs(folder, exist_ok=True)
write(model(graph(nodes, [value(name, [4], INT64) for name in indices],
                  [value("loss", [])], initializers), producer="pytorch"),
      folder + "/m.onnx")
header = ",".join(
    f'"{name}":{{"dtype":"I64","shape":[4],"data_offsets":[{32 * n},{32 * n + 32}]}}'
    for n, name in enumerate(indices))
header = ("{" + header + "}").encode()
with open(folder + "/data.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header)
    for numbers in indices.values():
        file.write(struct.pack("<4q", *numbers))
