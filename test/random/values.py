# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random shapes and arrays."""

import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT, HALF, DOUBLE = map(np.dtype, ("float32", "float16", "float64"))
BOOL, INT32, INT64 = map(np.dtype, ("bool", "int32", "int64"))
FLOATS = (FLOAT, HALF, BFLOAT16, DOUBLE)

# What programs compute with, and what only the interpreter does.
COMPILED = [FLOAT] * 6 + [HALF, BFLOAT16, INT32, INT64, INT64, BOOL]
FOLDED = COMPILED + [DOUBLE] * 2 + [np.dtype(name) for name in (
    "int8", "uint8", "int16", "uint16", "uint32", "uint64")]

# 16 is a vector of AVX-512, 8 one of AVX2; 17 and 33 leave a rest.
DIMENSIONS = [1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33]
LARGEST = 700  # elements


def is_float(dtype):
    return dtype in FLOATS


def limits(dtype):
    return np.iinfo(dtype)


def shape(rng, rank=None, empty=False, largest=LARGEST):
    if rank is None:
        rank = rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5])
    while True:
        sizes = tuple(int(rng.choice(DIMENSIONS)) for _ in range(rank))
        if np.prod(sizes, dtype=np.int64) <= largest:
            break
    if empty and rank and rng.random() < 0.3:
        place = int(rng.integers(rank))
        sizes = sizes[:place] + (0,) + sizes[place + 1:]
    return sizes


def special_floats(dtype):
    info = ml_dtypes.finfo(dtype)
    # The processor's conversion to bf16 (AVX-512) makes zeros of what is less
    # than normal.
    least = info.tiny if dtype == BFLOAT16 else info.smallest_subnormal
    return [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, float(info.max),
            float(info.tiny), float(least), -float(least) * 3]


def floats(rng, dtype, sizes, special=False):
    """Values of one of some kinds: round, so that results are exact and there
    are ties and zeros; without ties; small; positive."""
    count = int(np.prod(sizes))
    kind = rng.choice(["round", "normal", "normal", "small", "positive"])
    if kind == "round":
        data = rng.integers(-12, 13, count) / 4
    elif kind == "normal":
        data = rng.normal(0, 1.5, count)
    elif kind == "small":
        data = rng.uniform(-0.95, 0.95, count)
    else:
        data = rng.uniform(0.1, 3, count)
    if special and count:
        some = rng.random(count) < rng.choice([0.05, 0.3])
        data = np.where(some, rng.choice(special_floats(dtype), count), data)
    with np.errstate(all="ignore"):
        return data.astype(dtype).reshape(sizes)


def distinct(rng, sizes):
    """f32 values of which no two are close, none of which is near a kink: an
    integer or a half."""
    count = int(np.prod(sizes))
    data = (rng.permutation(count) - count // 2) * (4.0 / max(count, 8)) + 0.13
    near = np.abs(data * 2 - np.round(data * 2)) < 0.02
    return (data + 0.011 * near).astype(FLOAT).reshape(sizes)


def integers(rng, dtype, sizes, special=False):
    count = int(np.prod(sizes))
    info = limits(dtype)
    data = rng.integers(max(-6, info.min), 7, count)
    data = data.astype(dtype)
    if special and count:
        ends = np.array([info.min, info.max, info.max - 1, 0], dtype)
        data = np.where(rng.random(count) < 0.2, rng.choice(ends, count), data)
    return data.astype(dtype).reshape(sizes)


def array(rng, dtype, sizes, special=False):
    if dtype == BOOL:
        return (rng.random(sizes) < rng.choice([0.2, 0.5, 0.8])).reshape(sizes)
    if is_float(dtype):
        return floats(rng, dtype, sizes, special)
    return integers(rng, dtype, sizes, special)


def mate(rng, sizes):
    """A shape that broadcasts with `sizes`."""
    if rng.random() < 0.4:
        return sizes
    result = tuple(1 if rng.random() < 0.35 else size for size in sizes)
    result = result[int(rng.integers(len(sizes) + 1)):] if rng.random() < 0.5 \
        else result
    grown = tuple(int(rng.choice([2, 3, 5]))
                  if size == 1 and rng.random() < 0.15 else size
                  for size in result)
    return grown
