# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A graph of opset 11, where Squeeze has its axes as an attribute, in a file of
# IR version 3, where initializers are inputs.

from onnxfile import *

write(
    model(
        graph(
            [
                node("Squeeze", ["x"], ["s"], "squeeze", axes=[1]),
                node("MatMul", ["s", "w"], ["m"]),
                node("Add", ["m", "b"], ["a"]),
                node("Mul", ["a", "g"], ["y"]),
            ],
            [value("x", [2, 1, 4]), value("w", [4, 40]), value("b", [1]), value("g", [40])],
            [value("y", [2, 40])],
            [tensor("w", [4, 40], raw=floats(160)), tensor("b", [1], raw=floats(1)),
             tensor("g", [40], raw=floats(40))],
        ),
        opset=11,
        ir=3,
    )
)
