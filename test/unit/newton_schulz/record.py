#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes recorded.inc: what torch.optim.Muon makes orthogonal of matrices whose
elements are those of valueAt() in ../cpu_kernels_newton_schulz_test.cpp."""

import os

import torch
from torch.optim._muon import (DEFAULT_A, DEFAULT_B, DEFAULT_C,
                               DEFAULT_NS_STEPS, EPS,
                               _zeropower_via_newtonschulz)

SHAPES = [(6, 10), (10, 6), (40, 24), (17, 33)]


def main():
    lines = []
    for rows, columns in SHAPES:
        i = torch.arange(rows * columns)
        values = ((i * i * 37 + i * 11) % 101 - 50).float() / 64
        result = _zeropower_via_newtonschulz(
            values.reshape(rows, columns), (DEFAULT_A, DEFAULT_B, DEFAULT_C),
            DEFAULT_NS_STEPS, EPS)
        bits = result.contiguous().reshape(-1).view(torch.int16).tolist()
        words = [f"0x{b & 0xffff:04x}" for b in bits]
        lines.append(f"{{{rows}, {columns}, {{")
        lines += [", ".join(words[k:k + 9]) + ","
                  for k in range(0, len(words), 9)]
        lines.append("}},")
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "recorded.inc"), "w") as file:
        file.write("// Written by record.py.\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
