# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A call of a model-local function, whose body has an op that ONNX defines as a
# function.

from onnxfile import *

twice = function(
    "Twice",
    "local",
    ["a", "n"],
    ["b"],
    [node("Add", ["a", "a"], ["c"], "add"), node("HannWindow", ["n"], ["w"], "window"), node("Mul", ["c", "w"], ["b"], "mul")],
)
write(
    model(
        graph(
            [node("Twice", ["x", "size"], ["y"], "/block/Twice", "local")],
            [value("x", [2, 4])],
            [value("y", [2, 4])],
            initializers=[tensor("size", [], INT64, raw=struct.pack("<q", 4))],
        ),
        functions=[twice],
        domains=["local"],
    )
)
