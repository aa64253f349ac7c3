# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A file without a signature whose names say nothing of buffers.

from onnxfile import *

names = ["bn_scale", "bn_shift", "bn_m", "bn_v"]
write(
    model(
        graph(
            [
                node("BatchNormalization", ["x", *names], ["n"], "norm"),
                node("Resize", ["n", "", "factors"], ["y"], "resize"),
            ],
            [value("x", [1, 2, 3, 4])],
            [value("y", [1, 2, 6, 8])],
            [tensor(name, [2], raw=floats(2, 1.0)) for name in names] + [tensor("factors", [4], raw=struct.pack("<4f", 1, 1, 2, 2))],
        )
    )
)
