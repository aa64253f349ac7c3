# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# body: a call of a model-local function, whose body has an op that ONNX defines
# as a function. defaults: one that leaves out an attribute with a default, and
# one that hands its input back.

from onnxfile import *

twice = function(
    "Twice",
    "local",
    ["a", "n"],
    ["b"],
    [node("Add", ["a", "a"], ["c"], "add"), node("HannWindow", ["n"], ["w"], "window"), node("Mul", ["c", "w"], ["b"], "mul")],
)
body = model(
    graph(
        [node("Twice", ["x", "size"], ["y"], "/block/Twice", "local")],
        [value("x", [2, 4])],
        [value("y", [2, 4])],
        initializers=[tensor("size", [], INT64, raw=struct.pack("<q", 4))],
    ),
    functions=[twice],
    domains=["local"],
)
leaky = function("Leaky", "local", ["a"], ["b"], [node("LeakyRelu", ["a"], ["b"], refers={"alpha": ("slope", 1)})], defaults={"slope": 0.25})
same = function("Same", "local", ["a"], ["a"], [])
defaults = model(
    graph(
        [
            node("Leaky", ["x"], ["s"], domain="local"),
            node("Leaky", ["s"], ["t"], domain="local", slope=0.5),
            node("Same", ["t"], ["u"], domain="local"),
            node("Relu", ["u"], ["y"]),
        ],
        [value("x", [2, 4])],
        [value("y", [2, 4])],
    ),
    functions=[leaky, same],
    domains=["local"],
)
write({"body": body, "defaults": defaults}[sys.argv[2]])
