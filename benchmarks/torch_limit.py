#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch, its version, and the best GFLOP/s of its product of 2048 x 2048 x
2048 in f32 and bf16 on all cores, as one JSON object."""

import json
import time

import torch

SIZE = 2048
SECONDS = 2.0


def rate(dtype):
    a, b = (torch.full((SIZE, SIZE), 0.5, dtype=dtype) for _ in range(2))
    out = a @ b
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        begin = time.perf_counter()
        torch.mm(a, b, out=out)
        best = min(best, time.perf_counter() - begin)
    return round(2e-9 * SIZE ** 3 / best)


if __name__ == "__main__":
    print(json.dumps(dict(f32=dict(torch=rate(torch.float32)),
                          bf16=dict(torch=rate(torch.bfloat16)))))
