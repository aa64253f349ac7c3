# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What PyTorch's older exporter leaves of a module: arrays under their names,
# be they parameters or buffers, some of one number.

from onnxfile import *

write(
    model(
        graph(
            [
                node("Mul", ["x", "scale"], ["a"], "/Mul"),
                node("Add", ["a", "table"], ["b"], "/Add"),
                node("Conv", ["b", "onnx::Conv_9", "head.bias"], ["c"], "/head/Conv"),
                node("ReduceSum", ["c"], ["loss"], "/ReduceSum", keepdims=0),
            ],
            [value("x", [1, 2, 4])],
            [value("loss", [])],
            [
                tensor("scale", [1], raw=floats(1)),
                tensor("table", [2, 4], raw=floats(8)),
                tensor("onnx::Conv_9", [1, 2, 1], raw=floats(2)),
                tensor("head.bias", [1], raw=floats(1)),
            ],
        )
    )
    + field(2, "pytorch")
)
