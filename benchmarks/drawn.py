# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The weights that our executables draw with --init=random, for PyTorch.

Both sides then start from the same numbers, without a file of them, and their
losses can be compared. The definition is runtime/training/Weights.cpp.
"""

import math

import torch

STANDARD_DEVIATION = 0.02
WORD = (1 << 64) - 1
CHUNK = 1 << 24  # elements at a time: what is computed with is eight bytes


def mix(x):
    """mixBits of runtime/core/SampleOrder.h, of a Python number."""
    x = (x + 0x9e3779b97f4a7c15) & WORD
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9 & WORD
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb & WORD
    return x ^ (x >> 31)


def signed(x):
    return x - (1 << 64) if x >> 63 else x


def shifted(x, count):
    """PyTorch has no unsigned shift of 64 bits."""
    return (x >> count) & ((1 << (64 - count)) - 1)


def mix_all(x):
    """`mix` of every element of an int64 tensor, which wraps as uint64."""
    x = x + signed(0x9e3779b97f4a7c15)
    x = (x ^ shifted(x, 30)) * signed(0xbf58476d1ce4e5b9)
    x = (x ^ shifted(x, 27)) * signed(0x94d049bb133111eb)
    return x ^ shifted(x, 31)


def fill_normal(parameter, name, seed):
    key = mix(seed)
    for byte in name.encode():
        key = mix(key ^ byte)
    flat = parameter.view(-1)
    for at in range(0, len(flat), CHUNK):
        index = torch.arange(at, min(at + CHUNK, len(flat)),
                             device=flat.device)
        bits = mix_all(mix_all(index) ^ signed(key))
        u = (shifted(bits, 32).double() + 1) / 4294967297.0
        v = (bits & 0xffffffff).double() / 4294967296.0
        normal = torch.sqrt(-2 * torch.log(u)) * torch.cos(2 * math.pi * v)
        flat[at:at + CHUNK] = STANDARD_DEVIATION * normal.float()


def is_norm(name):
    """Whether a vector scales a norm, by what frameworks call it."""
    words = name.lower().split(".")
    return words[-1] == "weight" and len(words) > 1 and (
        "norm" in words[-2] or words[-2].startswith("ln"))


def draw(model, seed, renamed):
    """Fills the parameters; `renamed` is what the executable calls some."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            name = renamed.get(name, name)
            if parameter.dim() >= 2:
                fill_normal(parameter, name, seed)
            else:
                parameter.fill_(1.0 if is_norm(name) else 0.0)
