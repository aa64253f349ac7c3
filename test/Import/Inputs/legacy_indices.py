# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Tensors of indices as PyTorch's older exporter writes them:
# legacy_indices.py FOLDER KIND, a model and its data.
#
#   pairs    weight[i, j] of a [2, 3] matrix
#   triples  weight[i, j, k] of a [2, 2, 3] one
#   number   weight.flatten(0, 1)[i * 3 + j], which no axis of its own ends
#   list     the same of a list of one number: the sum is one of the exporter's
#   stride   weight[i, j]'s form for sizes that no axis has
#   put      weight.index_put((i,), y, accumulate=True)
#   add      weight.index_add(0, i, y)
#   add14    weight.scatter_add(0, i, y) of opset 14, of a y that is no constant
#   index14  add, of opset 14
#   told     add, of a file that says what its module is (annotate)
#   zeros14  weight * zeros(4).scatter_add(0, i, ones), of opset 14
#   own14    x + zeros_like(x).scatter(0, i, 1.0), the module's own, of opset 14;
#            own17 of opset 17, in which scatter_add has an attribute
#   buffer14 weight * (buffer + zeros(4).scatter(0, i, 1.0)), of opset 14, and
#            buffer17
#   sum17    weight + zeros_like(weight).scatter(0, i, y), the module's own, of
#            opset 17: add14 but for that
#
# and as it folds and merges what parameters have:
#
#   folded-put  put, by a constant size; folded-put13 of opset 13
#   shared      weight[i, j] and of a [5, 3] other, by one size and its Identity
#   merged      the same of a [5, 4] other, which read one sum (onnxslim), whose
#               second size is wrong then, so that it is the module's own
#   merged-same of a [5, 3] other
#
# The loss is the sum of squares of what is chosen, so that each element's
# gradient says which it was.

import os
import struct
import sys

from onnxfile import *

folder, kind = sys.argv[1], sys.argv[2]
ADDS = {"add": 18, "told": 18, "index14": 14, "add14": 14, "zeros14": 14,
        "own14": 14, "own17": 17, "buffer14": 14, "buffer17": 17, "sum17": 17}
PUTS = {"put": 20, "folded-put": 17, "folded-put13": 13}
TWO = {"shared": [5, 3], "merged": [5, 4], "merged-same": [5, 3]}
OWN = {"number": 3, "list": 3}
indices = {"i": [0, 1, 1, -1], "j": [-1, 0, 2, -3]}
shape = [2, 3]
if kind in OWN:
    shape = [2, 3, 1]
if kind == "triples":
    shape = [2, 2, 3]
    indices = {"i": [0, 1, -1, -1], "j": [-1, 0, 1, -2], "k": [2, -1, -2, -3]}
if kind in PUTS or kind in ADDS:
    indices, shape = {"i": [0, 1, 1, -1]}, [4]


def count(sizes):
    return sizes[0] * count(sizes[1:]) if sizes else 1


def weight(name, sizes):
    return tensor(name, sizes,
                  floats=[float(n + 1) for n in range(count(sizes))])


def size(axis, name):
    return [node("Gather", ["shape", f"at{axis}"], [name], axis=0)]


def gather(of, at, shape_of, name):
    """The exporter gives what it has gathered the shape of the indices."""
    return [node("Flatten", [of], [f"{name}flat"], axis=len(indices)),
            node("Gather", [f"{name}flat", at], [f"{name}row"], axis=0),
            node("Shape", [shape_of], [f"{name}sizes"]),
            node("Reshape", [f"{name}row", "last"], [f"{name}list"]),
            node("Concat", [f"{name}sizes"], [f"{name}final"], axis=0),
            node("Reshape", [f"{name}list", f"{name}final"], [name])]


initializers = [weight("weight", shape), int64s("last", [-1])]
initializers += [int64s(f"at{axis}", [axis]) for axis in range(3)]
nodes = [node("Shape", ["weight"], ["shape"])]
if kind in PUTS:
    folded = kind != "put"
    nodes += [node("Unsqueeze", ["i", "last"], ["column"]),
              node("ConstantOfShape", ["four" if folded else "shape"],
                   ["zeros"], value=tensor("", [1], floats=[0.0])),
              node("ScatterND", ["zeros", "column", "ones"], ["put"]),
              node("Add", ["weight", "put"], ["chosen"])]
    initializers += [tensor("ones", [4], floats=[1.0, 2.0, 4.0, 8.0])]
    initializers += [int64s("four", [4])] if folded else []
elif kind in ADDS:
    initializers += [tensor("ones", [4], floats=[1.0, 2.0, 4.0, 8.0]),
                     tensor("one", [1], floats=[1.0])]
    nodes += [node("ConstantOfShape", ["shape"], ["zeros"],
                   value=tensor("", [1], floats=[0.0]))]
    at, to, product = "i", "weight", kind in ("zeros14", "buffer14", "buffer17")
    if product:
        nodes += [node("Expand", ["one", "shape"], ["all"])]
        to, what = "zeros" if kind == "zeros14" else "ones", "all"
    elif kind in ("own14", "own17"):
        nodes += [node("Expand", ["one", "shape"], ["all"])]
        to, what = "x", "all"
        nodes += [node("Add", ["weight", "weight"], ["twice"]),
                  node("Cast", ["i"], ["floats"], to=1),
                  node("Mul", ["floats", "floats"], ["data"]),
                  node("Add", ["twice", "data"], ["x"])]
    elif kind in ("add", "told", "index14"):
        nodes += [node("Slice", ["weight", "at0", "last4"], ["like"]),
                  node("Shape", ["like"], ["likeSizes"]),
                  node("Expand", ["ones", "likeSizes"], ["y"]),
                  node("Shape", ["y"], ["ySizes"]),
                  node("Expand", ["i", "ySizes"], ["places"])]
        initializers += [int64s("last4", [4])]
        at, what = "places", "y"
    else:
        nodes += [node("Cast", ["i"], ["floats"], to=1),
                  node("Mul", ["floats", "one"], ["data"]),
                  node("Sub", ["data", "data"], ["nothing"]),
                  node("Add", ["ones", "nothing"], ["y"])]
        what = "y"
    nodes += [node("ScatterElements", ["zeros", at, what], ["put"],
                   name="scatter", axis=0),
              node("Add", [to, "put"], ["sum" if product else "chosen"])]
    if product:
        nodes += [node("Mul", ["weight", "sum"], ["chosen"])]
elif kind == "triples":
    nodes += size(2, "size2") + size(1, "size1") + [
        node("Mul", ["j", "size2"], ["before"]),
        node("Add", ["k", "before"], ["inner"]),
        node("Mul", ["size2", "size1"], ["stride"]),
        node("Mul", ["i", "stride"], ["outer"]),
        node("Add", ["inner", "outer"], ["at"])]
    nodes += gather("weight", "at", "at", "chosen")
elif kind in OWN:
    initializers += [int64s("three", [3]) if kind == "list" else
                     tensor("three", [], INT64, raw=struct.pack("<q", 3))]
    nodes += [node("Mul", ["i", "three"], ["outer"]),
              node("Add", ["j", "outer"], ["at"]),
              node("Flatten", ["weight"], ["flat"], axis=2),
              node("Gather", ["flat", "at"], ["chosen"], name="own", axis=0)]
elif kind in TWO:
    initializers += [weight("other", TWO[kind]), int64s("three", [3])]
    nodes += [node("Mul", ["i", "three"], ["outer"]),
              node("Add", ["j", "outer"], ["at"])]
    nodes += gather("weight", "at", "at", "mine")
    if kind == "shared":
        nodes[:0] = [node("Identity", ["three"], ["again"])]
        nodes += [node("Mul", ["i", "again"], ["outer2"]),
                  node("Add", ["j", "outer2"], ["sum2"])]
        nodes += gather("other", "sum2", "sum2", "yours")
    else:
        nodes += gather("other", "at", "at", "yours")
    nodes += [node("Add", ["mine", "yours"], ["chosen"])]
else:
    if kind == "stride":
        nodes += [node("Identity", ["at2"], ["size1"])]
    else:
        nodes += size(1, "size1")
    nodes += [node("Mul", ["i", "size1"], ["outer"]),
              node("Add", ["j", "outer"], ["at"])]
    nodes += gather("weight", "at", "at", "chosen")
nodes += [node("Mul", ["chosen", "chosen"], ["squares"]),
          node("ReduceSum", ["squares"], ["loss"], keepdims=0)]
meta = {"shardonnx.module":
        '{"version": 1, "parameters": [{"names": ["weight"], '
        '"requires_grad": true}], "buffers": ["ones", "one"]}'}
meta = meta if kind == "told" else {}
os.makedirs(folder, exist_ok=True)
write(model(graph(nodes, [value(name, [4], INT64) for name in indices],
                  [value("loss", [])], initializers), producer="pytorch",
            opset={**PUTS, **ADDS}.get(kind, 17), meta=meta),
      folder + "/m.onnx")
header = ",".join(
    f'"{name}":{{"dtype":"I64","shape":[4],"data_offsets":[{32 * n},{32 * n + 32}]}}'
    for n, name in enumerate(indices))
header = ("{" + header + "}").encode()
with open(folder + "/data.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header)
    for numbers in indices.values():
        file.write(struct.pack("<4q", *numbers))
for name, numbers in indices.items():
    about = "{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }"
    about = about.ljust(117) + "\n"
    with open(f"{folder}/{name}.npy", "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(about)) +
                   about.encode() + struct.pack("<4q", *numbers))
