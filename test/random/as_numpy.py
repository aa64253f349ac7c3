# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops that NumPy computes as PyTorch does where ONNX Runtime does not: to it, what
a NaN does depends on its place among the numbers, and integers that overflow
do not wrap.

A mean of nothing is NaN. In f64 its LogSoftmax bounds what it takes the
logarithm of, and its Shrink computes in f32.

Each function is given a node and its inputs (None: absent), and gives one array
or several.
"""

import warnings

import numpy as np

import values

OPS = {}


def op(*names):
    def register(function):
        OPS.update(dict.fromkeys(names, function))
        return function
    return register


def axes_of(node, x, axes):
    """The axes of a reduction; None where it leaves its operand as it is."""
    axes = node.attributes.get("axes") if axes is None else axes
    axes = () if axes is None else tuple(int(a) for a in axes)
    if not axes and node.attributes.get("noop_with_empty_axes"):
        return None
    return axes or tuple(range(x.ndim))


def reduced(node, x, axes, function):
    axes = axes_of(node, x, axes)
    if axes is None:
        return x
    return function(x, axis=axes,
                    keepdims=bool(node.attributes.get("keepdims", 1)))


@op("ReduceMax", "ReduceMin")
def extreme(node, x, axes=None):
    return reduced(node, x, axes, np.max if node.op == "ReduceMax" else np.min)


@op("ReduceSum", "ReduceProd")
def of_integers(node, x, axes=None):
    if values.is_float(x.dtype):
        return None
    function = np.sum if node.op == "ReduceSum" else np.prod
    return reduced(node, x, axes, function).astype(x.dtype)


@op("ReduceMean")
def of_nothing(node, x, axes=None):
    if x.size:
        return None
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return reduced(node, x, axes, np.mean)


@op("ReduceLogSumExp")
def log_sum_exp(node, x, axes=None):
    wide = x.astype(np.float64)
    if not np.isnan(wide).any():
        return None

    def compute(x, **more):
        with np.errstate(all="ignore"):
            return np.logaddexp.reduce(x, initial=-np.inf, **more)
    return reduced(node, wide, axes, compute).astype(x.dtype)


@op("Shrink")
def shrink(node, x):
    if x.dtype != values.DOUBLE:
        return None
    bias, limit = (float(np.float32(node.attributes.get(name, default)))
                   for name, default in (("bias", 0.0), ("lambd", 0.5)))
    return np.where(x < -limit, x + bias,
                    np.where(x > limit, x - bias, np.zeros_like(x)))


ALONG_AXIS = 13  # the first opset in which softmaxes go along one axis


def as_matrix(function, node, x):
    """What they were before: of the axes from theirs on as one."""
    axis = node.attributes.get("axis", 1) % max(x.ndim, 1)
    newer = type(node)(node.op, node.inputs, node.outputs, {"axis": 1},
                       ALONG_AXIS)
    rows = x.reshape(int(np.prod(x.shape[:axis])), -1)
    return function(newer, rows).reshape(x.shape)


@op("Softmax", "LogSoftmax")
def softmax(node, x):
    if x.dtype != values.DOUBLE or not x.size:
        return None
    if node.opset < ALONG_AXIS:
        return as_matrix(softmax, node, x)
    axis = node.attributes.get("axis", -1)
    with np.errstate(all="ignore"):
        x = x - x.max(axis, keepdims=True)
        total = np.exp(x).sum(axis, keepdims=True)
        return (x - np.log(total) if node.op == "LogSoftmax"
                else np.exp(x) / total)


@op("ArgMax", "ArgMin")
def arg(node, x):
    axis = node.attributes.get("axis", 0)
    last = node.attributes.get("select_last_index", 0)
    function = np.argmax if node.op == "ArgMax" else np.argmin
    made = function(np.flip(x, axis) if last else x, axis, keepdims=bool(
        node.attributes.get("keepdims", 1)))
    return x.shape[axis] - 1 - made if last else made


@op("Hardmax")
def hardmax(node, x):
    if node.opset < ALONG_AXIS:
        return as_matrix(hardmax, node, x)
    axis = node.attributes.get("axis", -1)
    made = np.zeros_like(x)
    np.put_along_axis(made, np.argmax(x, axis, keepdims=True), 1, axis)
    return made


@op("TopK")
def top_k(node, x, count=None):
    """A NaN is the largest; of equal ones the first comes first."""
    axis = node.attributes["axis"]
    count = [node.attributes["k"]] if count is None else count
    ranks = np.unique(x, return_inverse=True)[1].reshape(x.shape)
    if node.attributes.get("largest", 1):
        ranks = -ranks
    order = np.argsort(ranks, axis, kind="stable")
    order = np.take(order, range(int(count[0])), axis)
    return np.take_along_axis(x, order, axis), order
