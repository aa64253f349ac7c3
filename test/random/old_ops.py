# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forms that ops had before opset 18: what now are inputs as attributes, and a
softmax of matrices. An op of the other files that an old opset has not in that
form is refused when it is drawn."""

import numpy as np

import values
from layout_ops import factors
from model_ops import image
from ops import axes_of, op
from values import BOOL, FLOAT, INT32, INT64


def old(name, last, first=7, **more):
    return op(name, first=first, last=last, **more)


def from_front(b, x, axes):
    """Negative axes came with opset 11."""
    return [a % b.rank(x) for a in axes] if b.opset < 11 else axes


@old("matrix_softmax", 12, weight=3)
def matrix_softmax(b):
    x = b.floats(low=1)
    axis = b.integer(0, b.rank(x) - 1)
    b.add(b.choice(["Softmax", "LogSoftmax"]), [x],
          axis=b.choice([None, axis] if b.rank(x) > 1 else [axis]))


@old("matrix_hardmax", 12, where="forward")
def matrix_hardmax(b):
    x = b.floats(low=2)
    b.add("Hardmax", [x], axis=b.choice([None, b.integer(0, b.rank(x) - 1)]))


@old("axes_reduce", 17, weight=4)
def reduce(b):
    x = b.floats(low=1)
    name = b.choice(["ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd",
                     "ReduceL1", "ReduceL2", "ReduceLogSum",
                     "ReduceLogSumExp", "ReduceSumSquare"] +
                    ["ReduceSum"] * (b.opset < 13))
    if b.kind.gradients and 0 in b.shape(x) and name != "ReduceSum":
        raise ValueError
    axes = from_front(b, x, axes_of(b, x)) if b.chance(0.8) else None
    b.add(name, [x], axes=axes, keepdims=b.choice([None, 0, 1]))


@old("axes_squeeze", 12)
def squeeze(b):
    x = b.tensor()
    ones = [i for i, size in enumerate(b.shape(x)) if size == 1]
    kept = [axis for axis in ones if b.chance(0.7)]
    b.add("Squeeze", [x], axes=from_front(b, x, kept) or None)


@old("axes_unsqueeze", 12)
def unsqueeze(b):
    x = b.tensor(high=3)
    rank = b.rank(x) + (count := b.integer(1, 2))
    b.add("Unsqueeze", [x],
          axes=[int(a) for a in b.rng.permutation(rank)[:count]])


@old("sizes_split", 17)
def split(b):
    x = b.tensor(low=1)
    axis = b.integer(0, b.rank(x) - 1)
    size = b.shape(x)[axis]
    parts = b.choice([p for p in (1, 2, 3, 4) if size % p == 0])
    if b.chance(0.5) or b.opset > 12:
        return b.add("Split", [x], parts, axis=axis)
    ends = sorted(int(e) for e in b.rng.permutation(range(1, size))[:parts - 1]
                  ) if size else []
    sizes = np.diff([0, *ends, size]).tolist()
    return b.add("Split", [x], len(sizes), axis=axis, split=sizes)


@old("bounds_clip", 10)
def clip(b):
    low, high = sorted([b.integer(-3, 3), b.integer(-3, 3)])
    # Without a bound it is the largest number, not infinity.
    b.add("Clip", [b.floats()], min=float(low), max=float(high))


@old("all_pad", 17)
def pad(b):
    x = b.tensor([d for d in b.kind.dtypes if d in (FLOAT, INT32, INT64)]
                 if b.opset > 10 else [FLOAT], low=1)
    mode = b.choice([None, "constant", "reflect", "edge"])
    sides = [[b.integer(0, min(3, size - (mode == "reflect")))
              for size in b.shape(x)] for _ in range(2)]
    if b.opset < 11:
        constant = mode in (None, "constant") and b.chance(0.5)
        return b.add("Pad", [x], pads=sides[0] + sides[1], mode=mode,
                     value=1.5 if constant else None)
    return b.add("Pad", [x, b.known(*sides[0], *sides[1])], mode=mode)


@old("bounds_slice", 9)
def cut(b):
    x = b.tensor(low=1)
    axes = from_front(b, x, axes_of(b, x))
    bounds = [sorted([b.integer(0, max(b.shape(x)[a] - 1, 0)),
                      b.integer(0, b.shape(x)[a])]) for a in axes]
    starts = [low for low, _ in bounds]
    ends = [b.choice([max(high, low + 1), np.iinfo(np.int64).max])
            for low, high in bounds]
    b.add("Slice", [x], starts=starts, ends=ends, axes=axes)


@old("count_top_k", 9)
def top_k(b):
    x = b.tensor([FLOAT], low=1)
    axis = b.integer(0, b.rank(x) - 1)
    if b.shape(x)[axis] == 0:
        raise ValueError
    b.add("TopK", [x], 2, axis=axis, k=b.integer(1, b.shape(x)[axis]))


@old("ratio_dropout", 11)
def dropout(b):
    b.add("Dropout", [b.floats()], ratio=b.choice([None, 0.3]))


@old("upsample", 8, weight=0.5)
def upsample(b):
    # From opset 9 the scales are an operand, which has no rounding.
    x, spatial, _ = image(b)
    if spatial != 2:
        raise ValueError
    b.add("Upsample", [x], mode=b.choice([None, "nearest", "linear"]),
          scales=[1.0, 1.0, b.choice([1.0, 2.0, 3.0]), b.choice([1.0, 2.0])])


@old("reshape_whole", 17)
def reshape(b):
    x = b.tensor()
    if 0 in b.shape(x):
        raise ValueError
    b.add("Reshape", [x, b.known(*factors(b, b.array(x).size))])


@old("logic_old", 12, where="forward")
def logic(b):
    x = b.tensor([BOOL])
    b.add(b.choice(["And", "Or", "Xor"]), [x, b.fresh(BOOL, values.mate(
        b.rng, b.shape(x)))])
