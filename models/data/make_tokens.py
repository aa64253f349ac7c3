#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a token file from text: one token for each byte of its UTF-8 form.

    make_tokens.py text.txt tokens.bin

The result is raw little-endian uint16. A vocabulary of 256 is enough for it.
"""

import array
import sys


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: make_tokens.py TEXT TOKENS")
    with open(sys.argv[1], "rb") as text:
        tokens = array.array("H", list(text.read()))
    if sys.byteorder == "big":
        tokens.byteswap()
    with open(sys.argv[2], "wb") as output:
        tokens.tofile(output)
    print(f"{sys.argv[2]}: {len(tokens)} tokens")


if __name__ == "__main__":
    main()
