# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# own_loss.py OUT.onnx: the largest square of a product of x [batch, 20], which
# is no mean over samples.

import sys

from onnxfile import *

write(model(graph(
    [node("MatMul", ["x", "w"], ["y"]), node("Mul", ["y", "y"], ["squares"]), node("ReduceMax", ["squares"], ["loss"], keepdims=0)],
    [value("x", ["batch", 20])], [value("loss", [])],
    [tensor("w", [20, 3], floats=[(i % 7 - 3) / 5 for i in range(60)])])), sys.argv[1])
