# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Evaluation has room for the logits of a chunk, a number of each of its rows,
# and one product, that of the logits: as much as any product of that shape has.
#
#   check_evaluation_workspace.py PROGRAM.mlir ROWS WIDTH VOCABULARY

import re
import sys

path, rows, width, vocabulary = sys.argv[1], *map(int, sys.argv[2:])
with open(path) as file:
    program = file.read()
losses = [
    int(size)
    for size in re.findall(
        r"exec\.linear_cross_entropy.*? workspace %\d+ : memref<(\d+)xi8>", program
    )
]
product = re.search(
    rf"exec\.gemm .* workspace %\d+ : memref<(\d+)xi8> : memref<{rows}x{width}xf32>,"
    rf" memref<{width}x{vocabulary}xf32.*?>, memref<{rows}x{vocabulary}xf32>",
    program,
)
assert product, "no product of the shape of the logits"
alone = rows * vocabulary * 4 + rows * 8 + int(product[1])
assert len(losses) == 3, losses
assert losses[0] == losses[1] > losses[2] == alone, (losses, alone)
