#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes recorded.inc: what bitsandbytes makes of a million numbers.

Needs torch and bitsandbytes. The numbers are those of valueAt() in
../runtime_packing_test.cpp. bitsandbytes' PyTorch kernels are asked, which round
as its CUDA kernels do (its CPU library quantises scales by a table of 65,536
entries); the mean of the scales is the exact one, which torch.mean adds up
differently on each device.
"""

import hashlib
import os

import numpy as np
import torch
import bitsandbytes  # registers its operators
from bitsandbytes.functional import create_dynamic_map

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS, COLUMNS = 1000, 1000
SHOWN = 2048  # bytes of the packed codes, so that a difference can be seen


def splitmix(x):
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def values():
    index = np.arange(ROWS * COLUMNS, dtype=np.uint64)
    bits = splitmix(index)
    total = sum((bits >> np.uint64(16 * i)) & np.uint64(0xFFFF) for i in range(4))
    spread = 1 + (splitmix(index // np.uint64(640)) % np.uint64(1024)).astype(np.float32) / np.float32(1024)
    bell = (total.astype(np.int64) - 131070).astype(np.float32) * np.float32(2.0**-22)
    return torch.from_numpy(bell * spread)


def by_definition(name, *operands):
    key = torch._C.DispatchKeySet(torch._C.DispatchKey.CompositeExplicitAutograd)
    return getattr(torch.ops.bitsandbytes, name).default.redispatch(key, *operands)


def padded(array):
    data = array.numpy().tobytes()
    return data + bytes(-len(data) % 4)


def digest(data):
    return hashlib.sha256(data).hexdigest()


def nf4(weight):
    codes, scales = by_definition("quantize_4bit", weight, 64, "nf4", torch.uint8)
    mean = torch.tensor(scales.double().mean().item())
    table = create_dynamic_map()
    block, group = by_definition("quantize_blockwise", scales - mean, table, 256)
    packed = padded(codes) + padded(group) + padded(mean) + padded(block)
    again = by_definition("dequantize_blockwise", block, group, table, 256, torch.float32) + mean
    decoded = by_definition("dequantize_4bit", codes, again, 64, "nf4", weight.shape, torch.float32)
    return packed, decoded


def int8(weight):
    codes, scales, _ = by_definition("int8_vectorwise_quant", weight, 0.0)
    return padded(codes) + padded(scales), by_definition("int8_vectorwise_dequant", codes, scales)


def main():
    weight = values().reshape(ROWS, COLUMNS)
    lines = ["// Written by record.py from bitsandbytes " + bitsandbytes.__version__
             + " and torch " + torch.__version__.split("+")[0] + "."]
    for name, pack in (("NF4", nf4), ("Int8", int8)):
        packed, decoded = pack(weight)
        narrow = decoded.bfloat16().view(torch.int16)
        for what, data in (("Packed", packed), ("Decoded", padded(decoded)), ("Narrow", padded(narrow))):
            lines.append(f"constexpr const char *k{name}{what} =\n    \"{digest(data)}\";")
        lines.append(f"constexpr uint8_t k{name}First[] = {{")
        for at in range(0, SHOWN, 16):
            lines.append("    " + " ".join(f"{byte}," for byte in packed[at:at + 16]))
        lines.append("};")
    lines.append("constexpr const char *kDynamicMap =\n    \"" + digest(padded(create_dynamic_map())) + "\";")
    with open(os.path.join(HERE, "recorded.inc"), "w") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
