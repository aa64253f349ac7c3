# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# narrow.py FILE KIND: an input of bytes that is cast, or added to itself.

import sys

from onnxfile import *

UINT8, FLOAT32 = 2, 1
path, kind = sys.argv[1:]
first = {
    "picture": node("Transpose", ["x"], ["t"], "turn", perm=[1, 0]),
    "sum": node("Add", ["x", "x"], ["t"], "sum"),
}[kind]
rows = 4 if kind == "picture" else 2
write(model(graph(
    [first, node("Cast", ["t"], ["f"], "cast", to=FLOAT32), node("MatMul", ["f", "w"], ["y"], "product")],
    [value("x", [2, 4], UINT8)], [value("y", [rows, 3])],
    [tensor("w", [6 - rows, 3], floats=[0.5 - i / 8 for i in range(3 * (6 - rows))])])), path)
