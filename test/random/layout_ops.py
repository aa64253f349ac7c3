# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops that view, cut, join, choose and scatter."""

import numpy as np

import values
from ops import axes_of, op
from values import BOOL, FLOAT, INT32, INT64


def factors(b, count, most=4):
    """Sizes whose product is `count`."""
    sizes = []
    for _ in range(b.integer(0, most - 1)):
        fits = [d for d in (1, 2, 3, 4, 5, 7, 8) if count % d == 0 and count]
        if not fits:
            break
        sizes.append(b.choice(fits))
        count //= sizes[-1]
    place = b.integer(0, len(sizes))
    return [*sizes[:place], count, *sizes[place:]]


@op("Reshape")
def reshape(b):
    x = b.tensor()
    sizes = factors(b, b.array(x).size)
    if 0 in b.shape(x):
        return b.add("Reshape", [x, b.known(*sizes)], allowzero=1)
    if b.chance(0.4):
        sizes[b.integer(0, len(sizes) - 1)] = -1
    for i, size in enumerate(sizes[:b.rank(x)]):
        if size == b.shape(x)[i] and b.chance(0.5):
            sizes[i] = 0
    if b.array(x).size == 1 and b.chance(0.4):
        sizes = []
    return b.add("Reshape", [x, b.known(*sizes)])


@op("Flatten")
def flatten(b):
    x = b.tensor()
    b.add("Flatten", [x], axis=b.integer(-b.rank(x), b.rank(x)))


@op("Transpose")
def transpose(b):
    x = b.tensor()
    order = [int(a) for a in b.rng.permutation(b.rank(x))]
    b.add("Transpose", [x], perm=order if order and b.chance(0.8) else None)


@op("Squeeze")
def squeeze(b):
    x = b.tensor()
    ones = [i - (b.rank(x) if b.chance(0.3) else 0)
            for i, size in enumerate(b.shape(x)) if size == 1]
    kept = [axis for axis in ones if b.chance(0.7)]
    b.add("Squeeze", [x, b.known(*kept)] if kept else [x])


@op("Unsqueeze")
def unsqueeze(b):
    x = b.tensor(high=3)
    rank = b.rank(x) + (count := b.integer(1, 2))
    chosen = [int(a) - (rank if b.chance(0.3) else 0)
              for a in b.rng.permutation(rank)[:count]]
    b.add("Unsqueeze", [x, b.known(*chosen)])


@op("Expand")
def expand(b):
    x = b.tensor()
    sizes = [int(b.choice([2, 3, 5])) if s == 1 and b.chance(0.6) else
             1 if b.chance(0.3) else s for s in b.shape(x)]
    sizes = sizes[b.integer(0, len(sizes)):] if b.chance(0.3) else sizes
    lead = [b.integer(1, 3)] if len(sizes) == b.rank(x) and b.chance(0.3) else []
    b.add("Expand", [x, b.known(*lead, *sizes)])


@op("Tile")
def tile(b):
    x = b.tensor(low=1)
    b.add("Tile", [x, b.known(*[b.choice([1, 1, 2, 3]) for _ in b.shape(x)])])


@op("Slice")
def cut(b):
    x = b.tensor(low=1)
    axes = axes_of(b, x)
    starts, ends, steps = [], [], []
    for axis in axes:
        size = b.shape(x)[axis]
        step = b.choice([1, 1, 1, 2, 3, -1, -2])
        low, high = sorted([b.integer(0, max(size - 1, 0)), b.integer(0, size)])
        high = max(high, low + 1)
        if step < 0:
            low, high = high - 1, low - 1
        if high < 0:
            high = b.choice([-size - 1, np.iinfo(np.int64).min])
        elif high >= size and b.chance(0.5):
            high = np.iinfo(np.int64).max
        elif b.chance(0.2) and high < size:
            high -= size
        starts.append(low - (size if b.chance(0.2) else 0))
        ends.append(int(high))
        steps.append(step)
    inputs = [x, b.known(*starts), b.known(*ends), b.known(*axes)]
    if any(s != 1 for s in steps) or b.chance(0.3):
        inputs.append(b.known(*steps))
    b.add("Slice", inputs)


@op("Split")
def split(b):
    x = b.tensor(low=1)
    axis = b.axis(x)
    size = b.shape(x)[axis]
    parts = b.integer(1, max(1, min(4, size)))
    if b.chance(0.5):
        return b.add("Split", [x], parts, axis=axis, num_outputs=parts)
    ends = sorted(int(e) for e in b.rng.permutation(range(1, size))[:parts - 1]
                  ) if size else []
    sizes = np.diff([0, *ends, size]).tolist()
    return b.add("Split", [x, b.known(*sizes)], len(sizes), axis=axis)


@op("Concat")
def concat(b):
    x = b.tensor(low=1)
    axis = b.axis(x)
    parts = [x]
    for _ in range(b.integer(0, 3)):
        sizes = list(b.shape(x))
        sizes[axis] = b.integer(0 if b.empty else 1, 4)
        parts.append(x if b.chance(0.2) else b.like(b.dtype(x), sizes))
    b.add("Concat", [parts[i] for i in b.rng.permutation(len(parts))], axis=axis)


@op("Pad")
def pad(b):
    x = b.tensor([d for d in b.kind.dtypes if d in (FLOAT, INT32, INT64, BOOL)],
                 low=1)
    mode = b.choice([None, "constant", "reflect", "edge", "wrap"])
    if mode == "wrap" and b.opset < 19:
        mode = "edge"
    axes = axes_of(b, x)
    low, high = [], []
    for axis in axes:
        most = min(3, b.shape(x)[axis] - (mode == "reflect"))
        low.append(b.integer(0, most))
        high.append(b.integer(0, most))
        if mode in (None, "constant") and b.chance(0.2) and b.shape(x)[axis] > 2:
            low[-1] = -1
    inputs = [x, b.known(*low, *high), ""]
    if mode in (None, "constant") and b.chance(0.6):
        inputs[2] = b.leaf(np.array(b.integer(0, 1), b.dtype(x)), constant=True)
    b.add("Pad", [*inputs, b.known(*axes)], mode=mode)


@op("Trilu")
def trilu(b):
    x = b.tensor([d for d in b.kind.dtypes if d in (FLOAT, INT64, BOOL)], low=2)
    inputs = [x]
    if b.chance(0.6):
        inputs.append(b.known(b.integer(-5, 5), scalar=True))
    b.add("Trilu", inputs, upper=b.choice([None, 0, 1]))


@op("Range", where="forward")
def number_range(b):
    start, count, step = b.integer(-5, 5), b.integer(1, 9), b.choice([1, 2, -3])
    dtype = b.choice([INT64, INT32, FLOAT])
    bounds = [np.array(v, dtype)
              for v in (start, start + count * step, step)]
    # Floats that are data shape no program.
    b.add("Range", [b.leaf(v, constant=True) if dtype == FLOAT else
                    b.known(v, scalar=True, dtype=dtype) for v in bounds])


@op("ConstantOfShape")
def constant_of_shape(b):
    from onnx import numpy_helper
    dtype = b.choice([FLOAT, INT64, INT32, BOOL])
    value = numpy_helper.from_array(np.array([b.integer(0, 1)], dtype))
    b.add("ConstantOfShape", [b.known(*values.shape(b.rng))], value=value)


@op("shape", where="forward")
def shape_of(b):
    x = b.tensor()
    if b.chance(0.3):
        return b.add("Size", [x])
    return b.add("Shape", [x], start=b.choice([None, 0, 1, -2]),
                 end=b.choice([None, None, -1, 2]))


@op("EyeLike", where="forward")
def eye_like(b):
    x = b.tensor([d for d in b.kind.dtypes if d in (FLOAT, INT64, INT32)], rank=2)
    b.add("EyeLike", [x], k=b.choice([None, 1, -1, 7]))


@op("OneHot", where="forward")
def one_hot(b):
    depth = b.integer(1, 9)
    x = b.indices(depth, values.shape(b.rng, b.integer(0, 3)), np.int64)
    ends = b.leaf(np.array([0, 1], b.choice([FLOAT, INT64])), constant=True)
    b.add("OneHot", [x, b.known(depth, scalar=True), ends],
          axis=b.choice([None, b.axis(x, 1)]))


@op("Gather")
def gather(b):
    x = b.tensor(low=1, high=4)
    axis = b.axis(x)
    if 0 in b.shape(x):
        raise ValueError
    sizes = values.shape(b.rng, b.integer(0, 2), largest=20)
    b.add("Gather", [x, b.indices(b.shape(x)[axis], sizes)],
          axis=axis if b.chance(0.8) or axis else None)


def some_places(b, x, axis):
    """The shape of indices that choose along an axis."""
    return tuple(b.integer(1, 6) if i == axis % b.rank(x) else b.integer(1, s)
                 for i, s in enumerate(b.shape(x)))


@op("GatherElements")
def gather_elements(b):
    x = b.tensor(low=1)
    axis = b.axis(x)
    if 0 in b.shape(x):
        raise ValueError
    index = b.indices(b.shape(x)[axis], some_places(b, x, axis))
    b.add("GatherElements", [x, index], axis=axis)


@op("GatherND")
def gather_nd(b):
    x = b.tensor(low=1)
    if 0 in b.shape(x):
        raise ValueError
    batch = b.integer(0, min(1, b.rank(x) - 1))
    depth = b.integer(1, b.rank(x) - batch)
    lead = b.shape(x)[:batch] + tuple(
        values.shape(b.rng, b.integer(0, 2), largest=20))
    index = np.stack([b.rng.integers(-s if b.chance(0.3) else 0, s, lead)
                      for s in b.shape(x)[batch:batch + depth]], -1)
    b.add("GatherND", [x, b.leaf(index.astype(np.int64))],
          batch_dims=batch or None)


@op("ScatterElements")
def scatter_elements(b):
    x = b.tensor([d for d in b.kind.dtypes if d in (FLOAT, INT64, INT32)], low=1)
    axis = b.axis(x)
    if 0 in b.shape(x):
        raise ValueError
    sizes = some_places(b, x, axis)
    reduction = b.choice([None, None, "add", "mul", "max", "min"])
    limit = b.shape(x)[axis]
    if reduction is None:  # of two that write one place none is the last
        sizes = list(sizes)
        sizes[axis] = min(sizes[axis], limit)
        index = np.argsort(b.rng.random(
            [limit if i == axis % b.rank(x) else s
             for i, s in enumerate(sizes)]), axis)
        index = np.take(index, range(sizes[axis]), axis).astype(np.int64)
        index = b.leaf(index)
    else:
        index = b.indices(limit, sizes)
    b.add("ScatterElements", [x, index, b.like(b.dtype(x), b.shape(index))],
          axis=axis, reduction=reduction)


@op("ScatterND")
def scatter_nd(b):
    x = b.tensor([d for d in b.kind.dtypes if d in (FLOAT, INT64, INT32)], low=1)
    if 0 in b.shape(x):
        raise ValueError
    depth = b.integer(1, b.rank(x))
    places = np.array(list(np.ndindex(b.shape(x)[:depth])))
    count = b.integer(1, min(len(places), 6))
    reduction = b.choice([None, None, "add", "mul", "max", "min"])
    chosen = b.rng.choice(len(places), count, replace=reduction is not None)
    index = b.leaf(places[chosen].astype(np.int64))
    updates = b.like(b.dtype(x), (count, *b.shape(x)[depth:]))
    b.add("ScatterND", [x, index, updates], reduction=reduction)


@op("TopK")
def top_k(b):
    x = b.tensor([d for d in b.kind.dtypes if d in (FLOAT, INT64, INT32)], low=1)
    axis = b.axis(x)
    if b.shape(x)[axis] == 0:
        raise ValueError
    k = b.integer(1, b.shape(x)[axis])
    b.add("TopK", [x, b.known(k)], 2, axis=axis, largest=b.choice([None, 0, 1]))


@op("blocks")
def blocks(b):
    block = b.choice([1, 2, 3])
    n, c, h, w = b.integer(1, 2), b.integer(1, 3), b.integer(1, 3), b.integer(1, 4)
    if b.chance(0.5):
        x = b.like(FLOAT, (n, c * block * block, h, w))
        b.add("DepthToSpace", [x], blocksize=block,
              mode=b.choice([None, "DCR", "CRD"]))
    else:
        x = b.like(FLOAT, (n, c, h * block, w * block))
        b.add("SpaceToDepth", [x], blocksize=block)


@op("ReverseSequence")
def reverse_sequence(b):
    x = b.tensor([FLOAT, INT64], low=2, high=4)
    batch = b.integer(0, 1)
    if 0 in b.shape(x):
        raise ValueError
    lengths = b.rng.integers(1, b.shape(x)[1 - batch] + 1, b.shape(x)[batch])
    b.add("ReverseSequence", [x, b.leaf(lengths.astype(np.int64))],
          batch_axis=batch, time_axis=1 - batch)


@op("CenterCropPad")
def center_crop_pad(b):
    x = b.tensor([FLOAT], low=1, high=4)
    axes = [a % b.rank(x) for a in axes_of(b, x, 2)]
    b.add("CenterCropPad", [x, b.known(*[b.integer(1, 6) for _ in axes])],
          axes=axes)


@op("select", where="folded")
def select(b):
    x = b.tensor([FLOAT, INT64, INT32], low=1)
    kind = b.integer(0, 2)
    if kind == 0:
        b.add("NonZero", [x])
    elif kind == 1:
        b.add("Unique", [x], 4, axis=b.choice([None, b.axis(x)]),
              sorted=b.choice([None, 1]))
    else:
        axis = b.choice([None, b.axis(x)])
        size = b.array(x).size if axis is None else b.shape(x)[axis]
        b.add("Compress", [x, b.fresh(BOOL, (size,))], axis=axis)
