# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A model with one external weight: external.py OUT LOCATION [OFFSET [LENGTH]].

import sys

from onnxfile import *

entries = dict(zip(["location", "offset", "length"], sys.argv[2:]))
write(
    model(
        graph(
            [node("MatMul", ["x", "w"], ["y"], "matmul")],
            [value("x", [2, 16])],
            [value("y", [2, 32])],
            [tensor("w", [16, 32], external=entries)],
        )
    )
)
