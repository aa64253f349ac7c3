# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops that compute element by element, along axes, and products: for each a
function that draws operands and attributes."""

import numpy as np

import values
from values import BOOL, FLOAT, INT32, INT64

OLDEST, NEWEST = 18, 99

# By name: the function, the first opset that has it (from OLDEST, of those that
# old_ops.py has not), where it may be ("all", "forward": no gradients, "folded":
# only the interpreter has it), how often, and the last opset.
OPS = {}


def op(name, first=OLDEST, where="all", weight=1.0, last=NEWEST):
    def register(function):
        OPS[name] = (function, first, where, weight, last)
        return function
    return register


def in_opset(first, last, opset):
    """Whether an op may be drawn; an older opset may refuse its form."""
    return (first <= max(opset, OLDEST) if last == NEWEST
            else first <= opset <= last)


# ---- Of one operand

def unary(name, first=18, **attributes):
    def draw(b):
        chosen = {k: b.number(*v) for k, v in attributes.items()
                  if b.chance(0.5)}
        b.add(name, [b.floats()], **chosen)
    OPS[name] = (draw, first, "all", 0.4, NEWEST)


for each in ("Exp", "Log", "Sqrt", "Reciprocal", "Sigmoid", "Tanh", "Relu",
             "Softplus", "Softsign", "HardSwish", "Mish", "Erf", "Sin", "Cos",
             "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh",
             "Atanh", "Floor", "Ceil", "Round"):
    unary(each)
unary("LeakyRelu", alpha=(0.0, 0.3, -0.5, 1.5))
unary("Elu", alpha=(0.5, 1.7))
unary("Celu", alpha=(0.5, 1.7))
unary("Selu", alpha=(1.0, 1.5), gamma=(0.9, 1.2))
unary("HardSigmoid", alpha=(0.3, 0.0), beta=(0.4, 1.0))
unary("ThresholdedRelu", alpha=(0.4, 0.0, 2.0))
unary("Shrink", bias=(0.2, 0.0), lambd=(0.6, 0.0))


@op("Gelu", first=20)
def gelu(b):
    b.add("Gelu", [b.floats()],
          approximate=b.choice([None, "none", "tanh"]))


@op("signed")
def signed(b):
    b.add(b.choice(["Abs", "Neg", "Sign", "Abs", "Neg"]), [b.numbers()])


@op("Identity")
def identity(b):
    b.add("Identity", [b.tensor()])


@op("Not", where="forward")
def logical_not(b):
    b.add("Not", [b.tensor([BOOL])])


@op("tests", where="forward")
def tests(b):
    name = b.choice(["IsNaN", "IsInf"])
    more = {}
    if name == "IsInf" and b.chance(0.5):
        more = {"detect_negative": b.integer(0, 1),
                "detect_positive": b.integer(0, 1)}
    x = b.floats()
    if name == "IsInf" and b.opset < 20 and b.dtype(x) not in (FLOAT, np.float64):
        raise ValueError
    b.add(name, [x], **more)


@op("Clip")
def clip(b):
    x = b.numbers()
    dtype = b.dtype(x)
    ends = sorted([b.integer(-3, 3), b.integer(-3, 3)])
    if np.dtype(dtype).kind == "u":
        ends = [abs(ends[0]), abs(ends[0]) + 2]
    names = [b.leaf(np.array(end, dtype)) if b.chance(0.8) else ""
             for end in ends]
    while names and not names[-1]:
        names.pop()
    b.add("Clip", [x, *names])


@op("Cast", weight=2)
def cast(b):
    x = b.tensor()
    to = b.choice(b.kind.dtypes)
    if to != BOOL and not values.is_float(to):
        # What a float out of an integer's range becomes is nobody's rule.
        array = b.array(x)
        if values.is_float(array.dtype):
            info = values.limits(to)
            wide = array.astype(np.float64)
            if not np.all((np.trunc(wide) >= info.min) &
                          (np.trunc(wide) < info.max)):
                raise ValueError
    if b.chance(0.2):
        b.add("CastLike", [x, b.fresh(to, (2,))])
    else:
        from onnx import helper
        b.add("Cast", [x], to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))


# ---- Of two operands and more

@op("arithmetic", weight=4)
def arithmetic(b):
    x = b.numbers()
    b.add(b.choice(["Add", "Sub", "Mul", "Add", "Mul"]), swapped(b, x, b.mate(x)))


def swapped(b, x, y):
    return [y, x] if b.chance(0.5) else [x, y]


@op("Div")
def divide(b):
    x = b.numbers()
    y = b.mate(x)
    if not values.is_float(b.dtype(x)):
        # Division by zero, and of the least by -1, is nobody's rule.
        if (b.array(y) == 0).any() or (b.array(y) == -1).any():
            y = b.leaf(np.where(np.isin(b.array(y), (0, -1)), 3, b.array(y))
                       .astype(b.dtype(x)))
    b.add("Div", [x, y])


@op("Mod")
def mod(b):
    x = b.numbers()
    y = b.mate(x)
    if values.is_float(b.dtype(x)):
        return b.add("Mod", [x, y], fmod=1)
    if (b.array(y) == 0).any() or (b.array(y) == -1).any():
        y = b.leaf(np.where(np.isin(b.array(y), (0, -1)), 3, b.array(y))
                   .astype(b.dtype(x)))
    return b.add("Mod", [x, y], fmod=b.choice([None, 0, 1]))


@op("Pow")
def power(b):
    x = b.tensor([FLOAT, FLOAT, FLOAT, INT32, INT64] if not b.kind.gradients
                 else [FLOAT])
    dtype = FLOAT if b.chance(0.7) else b.choice([INT32, INT64])
    if not values.is_float(b.dtype(x)):
        # Of integers that are data it is refused.
        if b.kind.name == "compiled":
            raise ValueError
        # Negative powers of integers, and those that overflow, are nobody's
        # rule.
        if (np.abs(b.array(x).astype(np.float64)) > 100).any():
            raise ValueError
        y = b.leaf(b.rng.integers(0, 4, values.mate(b.rng, b.shape(x)))
                   .astype(b.choice([INT32, INT64])))
    elif b.chance(0.4):
        y = b.leaf(np.array(b.choice([2, 3, 0.5, -1, 0, 1, -0.5, 4, -2]),
                            FLOAT).astype(dtype), constant=True)
    else:
        y = b.mate(x, np.dtype(dtype))
    b.add("Pow", [x, y])


@op("extremes", weight=2)
def extremes(b):
    x = b.numbers()
    rest = [b.mate(x) for _ in range(b.choice([0, 1, 1, 1, 2]))]
    b.add(b.choice(["Min", "Max"]), [x, *rest])


@op("variadic")
def variadic(b):
    x = b.floats()
    rest = [b.mate(x) for _ in range(b.choice([0, 1, 1, 2, 3]))]
    b.add(b.choice(["Sum", "Mean"]), [x, *rest])


@op("PRelu")
def prelu(b):
    x = b.floats()
    sizes = tuple(1 if b.chance(0.4) else s for s in b.shape(x))
    b.add("PRelu", [x, b.fresh(b.dtype(x), sizes[b.integer(0, len(sizes)):])])


@op("compare", where="forward")
def compare(b):
    x = b.numbers()
    b.add(b.choice(["Equal", "Less", "LessOrEqual", "Greater",
                    "GreaterOrEqual"]), swapped(b, x, b.mate(x)))


@op("logic", where="forward")
def logic(b):
    x = b.tensor([BOOL])
    b.add(b.choice(["And", "Or", "Xor", "Equal"]), swapped(b, x, b.mate(x)))


@op("bits", where="folded")
def bits(b):
    x = b.fresh(b.int_type(), values.shape(b.rng))
    b.add(b.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor"]), [x, b.mate(x)])


@op("Where", weight=2)
def where(b):
    x = b.tensor()
    y = b.mate(x)
    sizes = np.broadcast_shapes(b.shape(x), b.shape(y))
    if b.chance(0.2):  # the same everywhere
        condition = b.leaf(np.full(values.mate(b.rng, sizes), b.chance(0.5)))
    else:
        condition = b.old(lambda a: a.dtype == BOOL and a.shape in
                          (sizes, sizes[1:], ()), 0.5) or \
            b.fresh(BOOL, values.mate(b.rng, sizes))
    b.add("Where", [condition, x, y])


# ---- Along axes

def axes_of(b, x, most=None):
    rank = b.rank(x)
    count = b.integer(1, min(rank, most or rank))
    chosen = b.rng.permutation(rank)[:count]
    return [int(a) - (rank if b.chance(0.3) else 0) for a in chosen]


@op("reduce", weight=4)
def reduce(b):
    name = b.choice(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin",
                     "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
                     "ReduceLogSumExp", "ReduceSumSquare"])
    if name in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"):
        x = b.tensor([d for d in b.kind.dtypes if values.is_float(d) or
                      d in (INT32, INT64)])
    else:
        x = b.floats()
    # Of nothing there is a sum; with gradients, a mean or an extreme is refused.
    if b.kind.gradients and 0 in b.shape(x) and name != "ReduceSum":
        raise ValueError
    inputs, more = [x], {}
    if b.rank(x) and b.chance(0.8):
        inputs.append(b.known(*axes_of(b, x)))
    elif b.chance(0.3):
        more["noop_with_empty_axes"] = b.integer(0, 1)
        # What happens without axes the op's function does before it, too.
        if more["noop_with_empty_axes"] and name not in (
                "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin",
                "ReduceProd"):
            raise ValueError
    if b.chance(0.5):
        more["keepdims"] = b.integer(0, 1)
    b.add(name, inputs, **more)


@op("arg", where="forward")
def arg(b):
    x = b.numbers(low=1)
    b.add(b.choice(["ArgMax", "ArgMin"]), [x], axis=b.axis(x),
          keepdims=b.choice([None, 0, 1]),
          select_last_index=b.choice([None, 0, 1]))


@op("softmax", weight=2)
def softmax(b):
    x = b.floats(low=1)
    b.add(b.choice(["Softmax", "LogSoftmax", "Softmax"]), [x],
          axis=b.choice([None, b.axis(x)]))


@op("Hardmax", where="forward")
def hardmax(b):
    x = b.floats(low=1)
    b.add("Hardmax", [x], axis=b.choice([None, b.axis(x)]))


@op("CumSum")
def cumsum(b):
    x = b.tensor([d for d in b.kind.dtypes if d in (FLOAT, INT32, INT64)], low=1)
    b.add("CumSum", [x, b.known(b.axis(x), scalar=True)],
          exclusive=b.choice([None, 1]), reverse=b.choice([None, 1]))


@op("LpNormalization")
def lp_normalization(b):
    x = b.floats(low=1)
    b.add("LpNormalization", [x], axis=b.axis(x), p=b.choice([1, 2]))


@op("LayerNormalization", weight=2)
def layer_normalization(b):
    x = b.floats(low=1)
    axis = b.axis(x)
    sizes = b.shape(x)[axis:]
    inputs = [x, b.like(b.dtype(x), sizes)]
    if b.chance(0.6):
        inputs.append(b.like(b.dtype(x), sizes))
    outputs = b.choice([1, 1, 1, 3]) if not b.kind.gradients else 1
    b.add("LayerNormalization", inputs, outputs, axis=axis,
          epsilon=b.choice([None, 1e-3]))


@op("RMSNormalization", first=23)
def rms_normalization(b):
    x = b.floats(low=1)
    axis = b.axis(x)
    b.add("RMSNormalization", [x, b.like(b.dtype(x), b.shape(x)[axis:])],
          axis=axis, epsilon=b.choice([None, 1e-3]))


@op("channels", weight=2)
def channel_norms(b):
    x = b.floats(low=3, high=4)
    dtype, channels = b.dtype(x), b.shape(x)[1]

    def vector(positive=False):
        if positive:
            return b.leaf(b.rng.uniform(0.2, 2, channels).astype(dtype))
        return b.like(dtype, (channels,))
    kind = b.choice(["batch", "batch", "instance", "group"])
    if kind == "batch":
        fresh = b.chance(0.3)  # as a model that was never trained has it
        ones = b.leaf(np.ones(channels, dtype), constant=True)
        zeros = b.leaf(np.zeros(channels, dtype), constant=True)
        b.add("BatchNormalization", [x, ones, zeros, zeros, ones] if fresh else
              [x, vector(), vector(), vector(), vector(positive=True)],
              epsilon=b.choice([None, 1e-3]))
    elif kind == "instance":
        b.add("InstanceNormalization", [x, vector(), vector()])
    elif b.opset >= 21 and channels:
        groups = b.choice([g for g in range(1, channels + 1)
                           if channels % g == 0])
        b.add("GroupNormalization", [x, vector(), vector()], num_groups=groups)
    else:
        raise ValueError


@op("MeanVarianceNormalization")
def mean_variance(b):
    x = b.floats(low=2)
    axes = axes_of(b, x)
    # The variance of one number is zero, or the rounding of its square.
    if all(b.shape(x)[axis] == 1 for axis in axes) or 0 in b.shape(x):
        raise ValueError
    b.add("MeanVarianceNormalization", [x], axes=axes)


# ---- Products

@op("MatMul", weight=2)
def matmul(b):
    # Of integers that are data it is refused.
    x = b.floats(low=1) if b.chance(0.9) or b.kind.name != "folded" else \
        b.tensor([INT32, INT64], low=1)
    inner, rank = b.shape(x)[-1], b.rank(x)
    columns = int(b.choice(values.DIMENSIONS))
    kind = b.integer(0, 4)
    sizes = {0: (inner,), 1: (inner, columns), 2: (inner, columns)}.get(
        kind, tuple(1 if b.chance(0.3) else s for s in b.shape(x)[:-2]) +
        (inner, columns))
    if kind == 4 and rank > 2:
        sizes = sizes[b.integer(0, rank - 2):]
    b.add("MatMul", [x, b.like(b.dtype(x), sizes)])


@op("Gemm", weight=2)
def gemm(b):
    rows, inner, columns = (int(b.choice(values.DIMENSIONS)) for _ in range(3))
    first, second = b.integer(0, 1), b.integer(0, 1)
    dtype = b.float_type()
    a = b.like(dtype, (inner, rows) if first else (rows, inner))
    w = b.like(dtype, (columns, inner) if second else (inner, columns))
    inputs = [a, w]
    if b.chance(0.7):
        inputs.append(b.like(dtype, b.choice(
            [(), (1,), (columns,), (rows, 1), (1, columns), (rows, columns),
             (1, 1)])))
    b.add("Gemm", inputs, transA=first or None, transB=second or None,
          alpha=b.choice([None, 0.5]), beta=b.choice([None, 0.25, 0.0]))


EINSUMS = ["ij,jk->ik", "ij,kj->ik", "bij,bjk->bik", "i,i->", "i,j->ij", "ij->ji",
           "ij->j", "bhqd,bhkd->bhqk", "bij,jk", "ii->i", "ij,ij->i", "abc->cab",
           "bqhd,bkhd->bhqk", "...ij,...jk->...ik", "i->", "ij,jk,kl->il", "ab,cd->abcd",
           "ii", "iij,j", "ba,cb", "i...,i...->...", ",ij->ji"]


@op("Einsum")
def einsum(b):
    equation = b.choice(EINSUMS)
    sizes = {}
    inputs = []
    dtype = b.float_type()
    for term in equation.split("->")[0].split(","):
        letters = [c for c in term.replace("...", "Z")]
        for c in letters:
            sizes.setdefault(c, int(b.choice([1, 2, 3, 4, 5, 8])))
        inputs.append(b.like(dtype, tuple(sizes[c] for c in letters)))
    b.add("Einsum", inputs, equation=equation)
