# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a graph's outputs may be.

How far an output may lie from the reference is measured, not guessed: each node
that rounds is computed again with operands and results moved by some units in
the last place, eight times. An element that moves far because of it (a cancelled sum,
a floor beside a step, a maximum of two near values) may be as far off.
"""

import ml_dtypes
import numpy as np

import values

RUNS = 8  # of which one or another moves two neighbours apart
# The interpreter computes some functions of f64 in f32.
ROUNDING = {values.FLOAT: 1e-6, values.HALF: 1e-3, values.BFLOAT16: 8e-3,
            values.DOUBLE: 1e-6}
RELATIVE, OF_LARGEST, OF_MOVED = 10, 2, 6  # times the rounding

# What gives a number that it was given, or an exact one, or no number.
EXACT = {"Identity", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze",
         "Expand", "Tile", "Slice", "Split", "Concat", "Pad", "Trilu", "Gather",
         "GatherElements", "GatherND", "TopK", "Where", "Min", "Max", "Abs",
         "Neg", "Sign", "Floor", "Ceil", "Round", "Relu", "Clip", "Not",
         "IsNaN", "IsInf", "Equal", "Less", "LessOrEqual", "Greater",
         "GreaterOrEqual", "ArgMax", "ArgMin", "Hardmax", "ReduceMax",
         "ReduceMin", "Shape", "Size", "Range", "ConstantOfShape", "EyeLike",
         "OneHot", "DepthToSpace", "SpaceToDepth", "ReverseSequence",
         "CenterCropPad", "NonZero", "Unique", "Compress", "MaxPool",
         "GlobalMaxPool", "ThresholdedRelu", "Cast", "CastLike"}


def moved(rng, array, turn, to_zero):
    """Floats moved by their rounding; zeros change their sign. A `turn` of -1
    moves each the other way than 1 does. `to_zero`: so is what is less than
    normal, in f16 of no kernel."""
    if array.dtype not in ROUNDING:
        return array
    step = turn * ROUNDING[array.dtype] * rng.choice([-1.0, 1.0], array.shape)
    tiny = float(ml_dtypes.finfo(array.dtype).tiny)
    to_zero = to_zero and array.dtype != values.HALF
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        near = np.sign(step) * 0.0 if to_zero else (
            wide + np.sign(step) * tiny / 1e4)
        result = np.where(np.abs(wide) < tiny, near, wide * (1 + step))
        return np.asarray(result.astype(array.dtype)).reshape(array.shape)


def move_all(graph, seed):
    """All values, each node's roundings moved."""
    rng, turn = np.random.default_rng(seed // 2), 1 - 2 * (seed % 2)
    to_zero = seed >= RUNS - 2
    known = dict(graph.leaves())
    for node in graph.nodes:
        rounds = node.op not in EXACT
        reader = node.apart() if rounds else node
        arrays = {mine: known[name] for mine, name in zip(
            reader.inputs, node.inputs) if name}
        if rounds:
            arrays = {name: moved(rng, a, turn, to_zero)
                      for name, a in arrays.items()}
        for name, array in zip(node.outputs, reader.evaluate(arrays, judged=False)):
            known[name] = moved(rng, array, turn, to_zero) if rounds or (
                node.op.startswith("Cast")) else array
    return known


class Expected:
    """The outputs of a graph, and how far off each element may be."""

    def __init__(self, graph):
        self.graph = graph
        self.runs = [move_all(graph, seed) for seed in range(RUNS)]

    def difference(self, name, got):
        """What is wrong with an output, or nothing."""
        expected = np.asarray(self.graph.values[name])
        if got.dtype != expected.dtype or got.shape != expected.shape:
            return (f"{name} is {got.dtype}{list(got.shape)}, "
                    f"not {expected.dtype}{list(expected.shape)}")
        if any(run[name].shape != expected.shape for run in self.runs):
            return ""  # Unique, NonZero: how many is a matter of rounding
        if expected.dtype not in ROUNDING:
            bad = got != expected
            for run in self.runs:
                bad &= run[name] == expected
        else:
            bad = self.far(name, got.astype(np.float64),
                           expected.astype(np.float64))
        if not bad.any():
            return ""
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        return (f"{name}{list(place)} is {got[place]!r}, "
                f"not {expected[place]!r} ({int(bad.sum())} of {bad.size})")

    def far(self, name, got, expected):
        unit = ROUNDING[self.graph.values[name].dtype]
        tiny = float(ml_dtypes.finfo(self.graph.values[name].dtype).tiny)
        with np.errstate(all="ignore"):
            finite = np.abs(expected[np.isfinite(expected)])
            largest = finite.max() if finite.size else 0
            allowed = unit * (RELATIVE * np.abs(expected) +
                              OF_LARGEST * largest) + tiny
            off = np.abs(got - expected)
            known = np.ones(expected.shape, bool)
            for run in self.runs:
                other = run[name].astype(np.float64)
                same = np.where(np.isfinite(expected), np.isfinite(other),
                                (other == expected) |
                                (np.isnan(other) & np.isnan(expected)))
                known &= same
                step = np.abs(other - expected)
                allowed += np.where(np.isfinite(step), OF_MOVED * step, 0)
            right = np.where(np.isfinite(expected), off <= allowed,
                             (got == expected) |
                             (np.isnan(got) & np.isnan(expected)))
        return known & ~right
