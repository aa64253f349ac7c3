# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A graph of opset 11, where Squeeze has its axes as an attribute.

from onnxfile import *

write(
    model(
        graph(
            [node("Squeeze", ["x"], ["y"], "squeeze", axes=[1])],
            [value("x", [2, 1, 4])],
            [value("y", [2, 4])],
        ),
        opset=11,
    )
)
