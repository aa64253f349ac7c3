# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Writes token files: tokens.py OUT.bin COUNT [POSITION TOKEN]: COUNT tokens
# below 256 as uint16, and one of a given value.

import array
import sys

tokens = array.array("H", [(i * 31) % 256 for i in range(int(sys.argv[2]))])
if len(sys.argv) > 3:
    tokens[int(sys.argv[3])] = int(sys.argv[4])
with open(sys.argv[1], "wb") as file:
    tokens.tofile(file)
