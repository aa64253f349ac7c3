# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A call of a model-local function, and an op that ONNX defines as a function.

from onnxfile import *

twice = function("Twice", "local", ["a"], ["b"], [node("Add", ["a", "a"], ["b"], "add")])
write(
    model(
        graph(
            [
                node("Twice", ["x"], ["t"], "/block/Twice", "local"),
                node("HardSwish", ["t"], ["y"], "/block/HardSwish"),
            ],
            [value("x", [2, 4])],
            [value("y", [2, 4])],
        ),
        functions=[twice],
        domains=["local"],
    )
)
