# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cases of gradients.py: every differentiable op over shapes, axes, attributes.

A case is one node. Float arrays become inputs of the graph, and their gradients
are compared; integer and bool arrays become initializers. Values are distinct
and keep away from the kinks of the ops that read them.
"""

import itertools

import numpy as np
import onnx
from onnx import helper

UNARY_SHAPES = [(2, 3), (), (1,), (3, 1, 5), (17,), (0, 4)]
BINARY_SHAPES = [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)),
                 ((), (2, 3)), ((1,), (5,)), ((3, 1, 5), (4, 1)),
                 ((7,), (1, 1)), ((0, 3), (3,))]


class Case:
    """One node, its inputs, and which of its outputs count."""

    def __init__(self, op, inputs, attributes, outputs, kept):
        self.op = op
        self.inputs = inputs
        self.attributes = attributes
        self.outputs = outputs
        self.kept = kept

    @property
    def empty(self):
        return any(a is not None and a.dtype.kind == "f" and a.size == 0
                   for a in self.inputs)

    @property
    def name(self):
        words = [self.op]
        for array in self.inputs:
            words.append(described(array))
        words += [f"{k}={getattr(v, 'name', v)}".replace(" ", "")
                  for k, v in self.attributes.items()]
        if self.outputs > 1:
            words.append("->" + ",".join(f"y{i}" for i in self.kept))
        return " ".join(words)


def described(array):
    """An input in a case's name: its shape, or its values where they are few."""
    if array is None:
        return "-"
    if array.dtype.kind != "f" and array.size <= 6:
        return str(array.tolist()).replace(" ", "")
    shape = "x".join(map(str, array.shape)) or "scalar"
    return shape if array.dtype.kind == "f" else f"{shape}:{array.dtype}"


def case(op, *inputs, outputs=1, kept=None, **attributes):
    inputs = [None if array is None else np.asarray(array)
              for array in inputs]
    return Case(op, inputs, attributes, outputs,
                list(range(outputs)) if kept is None else kept)


def floats(*shape, low=-1.93, high=2.11, seed=0):
    """Distinct values between two bounds, in an order that looks random."""
    count = int(np.prod(shape))
    values = np.linspace(low, high, max(count, 2))[:count]
    order = np.random.RandomState(seed + count).permutation(count)
    # Exact in f32, so that both sides read the same numbers.
    return values[order].reshape(shape).astype(np.float32).astype(np.float64)


def positive(*shape, seed=0):
    return floats(*shape, low=0.31, high=2.3, seed=seed)


def inside(*shape, seed=0):
    """Values between -1 and 1."""
    return floats(*shape, low=-0.87, high=0.91, seed=seed)


def ints(*values):
    return np.array(values, np.int64)


def bools(*shape):
    return np.random.RandomState(3).rand(*shape) < 0.5


UNARY = {
    floats: ["Abs", "Neg", "Exp", "Sigmoid", "Tanh", "Relu", "LeakyRelu",
             "Elu", "Selu", "Celu", "Softplus", "Softsign", "HardSigmoid",
             "HardSwish", "Mish", "ThresholdedRelu", "Erf", "Gelu", "Sin",
             "Cos", "Atan", "Sinh", "Cosh", "Asinh", "Floor", "Ceil", "Sign",
             "Identity", "Shrink", "Round"],
    positive: ["Log", "Sqrt", "Reciprocal"],
    inside: ["Tan", "Asin", "Acos", "Atanh"],
    lambda *shape: 1.2 + positive(*shape): ["Acosh"],
}


def unary():
    for values, ops in UNARY.items():
        for op, shape in itertools.product(ops, UNARY_SHAPES):
            # ONNX's own function body of Celu gives a scalar one axis.
            if op != "Celu" or shape:
                yield case(op, values(*shape))
    x = floats(3, 5)
    yield case("Gelu", x, approximate="tanh")
    yield case("LeakyRelu", x, alpha=0.3)
    yield case("Elu", x, alpha=0.7)
    yield case("Celu", x, alpha=1.7)
    yield case("Selu", x, alpha=1.5, gamma=0.9)
    yield case("HardSigmoid", x, alpha=0.3, beta=0.4)
    yield case("ThresholdedRelu", x, alpha=0.4)
    yield case("Shrink", x, bias=0.2, lambd=0.6)
    yield case("Clip", x, np.array(-0.7), np.array(1.1))
    yield case("Clip", x, None, np.array(1.1))
    yield case("Clip", x, np.array(-0.7))
    yield case("Clip", x)
    yield case("Dropout", x)


def binary():
    for a, b in BINARY_SHAPES:
        for op in ("Add", "Sub", "Mul", "Min", "Max"):
            yield case(op, floats(*a), floats(*b, low=-1.7, high=2.0, seed=5))
        yield case("Div", floats(*a), positive(*b, seed=5))
        yield case("Pow", positive(*a), floats(*b, seed=5))
    for b in ((2, 3), (3,), (1,), (2, 1)):
        yield case("PRelu", floats(2, 3), positive(*b))
    yield case("Div", positive(2, 1), positive(2, 3, seed=2))
    yield case("Mod", floats(2, 3), np.full((3,), 0.83), fmod=1)
    for op in ("Sum", "Mean", "Min", "Max"):
        yield case(op, floats(2, 3))
        yield case(op, floats(2, 3), floats(3, low=-1.5), floats(2, 1, high=3))
    for c, a, b in (((2, 3), (2, 3), (2, 3)), ((3,), (2, 1), ()),
                    ((2, 1), (1, 3), (2, 3)), ((1,), (5,), (1,)),
                    ((4, 1, 3), (5, 1), (3,))):
        yield case("Where", bools(*c), floats(*a), floats(*b, seed=4))


REDUCTIONS = [((2, 3, 4), None, 1), ((2, 3, 4), None, 0), ((2, 3, 4), [0], 0),
              ((2, 3, 4), [-1], 1), ((3, 1, 5), [0, 2], 0), ((3, 1, 5), [1], 0),
              ((1, 7), [1], 1), ((2, 3, 4), [-2, -1], 1)]


def reductions():
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin",
               "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
               "ReduceLogSumExp", "ReduceSumSquare"):
        values = positive if op in ("ReduceLogSum", "ReduceProd") else floats
        for shape, axes, keep in REDUCTIONS:
            axes = [] if axes is None else [ints(*axes)]
            yield case(op, values(*shape), *axes, keepdims=keep)
        yield case(op, values(2, 3), noop_with_empty_axes=1)
    yield case("ReduceSum", floats(0, 3), ints(0))
    for op in ("Softmax", "LogSoftmax"):
        for shape, axis in (((2, 3, 4), 0), ((2, 3, 4), 1), ((2, 3, 4), -1),
                            ((1, 7), 1), ((5,), 0), ((3, 1), -1)):
            yield case(op, floats(*shape), axis=axis)
    for attributes in ({}, {"exclusive": 1}, {"reverse": 1},
                       {"exclusive": 1, "reverse": 1}):
        yield case("CumSum", floats(2, 5), np.array(1), **attributes)
    yield case("CumSum", floats(3, 1, 4), np.array(-3))
    yield case("TopK", floats(3, 5), ints(2), outputs=2, kept=[0])
    yield case("TopK", floats(3, 5), ints(2), outputs=2, kept=[0], axis=0,
               largest=0)


def norms():
    x = floats(2, 3, 4)
    for axis, size in ((-1, (4,)), (1, (3, 4)), (0, (2, 3, 4)), (-2, (3, 4))):
        scale, bias = positive(*size), floats(*size, seed=2)
        yield case("LayerNormalization", x, scale, bias, axis=axis)
        yield case("LayerNormalization", x, scale, axis=axis, epsilon=1e-2)
        yield case("RMSNormalization", x, scale, axis=axis)
    yield case("RMSNormalization", floats(5, 7), positive(7), epsilon=1e-2)
    c = [positive(3), floats(3, seed=1), floats(3, low=-.5, high=.5, seed=2),
         positive(3, seed=3)]
    yield case("BatchNormalization", x, *c)
    yield case("BatchNormalization", floats(2, 3, 2, 3), *c, epsilon=1e-2)
    yield case("BatchNormalization", floats(4, 3), *c)
    yield case("InstanceNormalization", x, *c[:2])
    yield case("InstanceNormalization", floats(1, 3, 3, 2), *c[:2],
               epsilon=1e-2)
    for groups in (1, 2, 4):
        yield case("GroupNormalization", floats(2, 4, 3), positive(4),
                   floats(4, seed=1), num_groups=groups)
    for axis, p in ((-1, 2), (0, 2), (1, 1), (-1, 1)):
        yield case("LpNormalization", x, axis=axis, p=p)
    yield case("MeanVarianceNormalization", floats(2, 3, 2, 2))
    yield case("MeanVarianceNormalization", x, axes=[1])


def products():
    for a, b in (((2, 3), (3, 4)), ((1, 3), (3, 1)), ((5, 2, 3), (3, 4)),
                 ((5, 2, 3), (5, 3, 2)), ((2, 1, 2, 3), (3, 3, 2)), ((3,), (3,)),
                 ((3,), (3, 4)), ((2, 3), (3,)), ((7, 1), (1, 5)),
                 ((2, 4, 3), (3,)), ((3,), (2, 3, 4)), ((2, 3), (4, 3, 2))):
        yield case("MatMul", floats(*a), floats(*b, seed=3))
    for ta, tb, c in itertools.product((0, 1), (0, 1), (None, (4,))):
        a = floats(*((3, 2) if ta else (2, 3)))
        b = floats(*((4, 3) if tb else (3, 4)), seed=3)
        more = [] if c is None else [floats(*c, seed=5)]
        yield case("Gemm", a, b, *more, transA=ta, transB=tb)
    for c in ((2, 1), (1, 4), (2, 4), (), (1,)):
        yield case("Gemm", floats(2, 3), floats(3, 4, seed=3),
                   floats(*c, seed=5), alpha=0.7, beta=1.3)
    for equation, *shapes in (
            ("ij,jk->ik", (2, 3), (3, 4)), ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
            ("ij->ji", (2, 3)), ("ij->i", (2, 3)), ("i,j->ij", (2,), (3,)),
            ("bhid,bhjd->bhij", (2, 2, 3, 2), (2, 2, 2, 2)), ("ij,ij->", (2, 3), (2, 3)),
            ("...ij,...jk->...ik", (2, 2, 3), (2, 3, 2)), ("ij,kj->ik", (2, 3), (1, 3)),
            ("ii->i", (3, 3)), ("bnd,de->bne", (2, 3, 2), (2, 5))):
        yield case("Einsum", *[floats(*s, seed=i) for i, s in enumerate(shapes)],
                   equation=equation)


def transforms():
    """Real and complex, one side and both, longer and shorter than the signal."""
    for parts, more in ((1, {}), (2, {}), (1, {"onesided": 1}),
                        (2, {"inverse": 1, "onesided": 1})):
        yield case("DFT", floats(2, 5, parts), **more)
        yield case("DFT", floats(2, 4, 3, parts), None, np.int64(1), **more)
        for length in (3, 6):
            yield case("DFT", floats(2, 4, parts), np.int64(length), **more)
    # By two factors.
    yield case("DFT", floats(1, 768, 1, seed=7))
    yield case("DFT", floats(1, 720, 2, seed=7))
    yield case("DFT", floats(1, 1024, 1, seed=7), onesided=1)
    for length in (1024, 1025):
        yield case("DFT", floats(1, 513, 2, seed=7), np.int64(length),
                   onesided=1, inverse=1)
    for window, length in ((floats(4, seed=3), None), (None, np.int64(3))):
        for sides in (0, 1):
            yield case("STFT", floats(2, 9, 1), np.int64(2), window, length,
                       onesided=sides)


def shapes():
    x = floats(2, 3, 4)
    yield case("Reshape", x, ints(4, -1))
    yield case("Reshape", x, ints(0, -1))
    yield case("Reshape", floats(1), ints())
    for perm in ([2, 0, 1], [0, 2, 1], [2, 1, 0]):
        yield case("Transpose", x, perm=perm)
    yield case("Transpose", x)
    yield case("Squeeze", floats(1, 3, 1), ints(0, -1))
    yield case("Squeeze", floats(1, 3, 1))
    yield case("Unsqueeze", floats(3), ints(0, 2))
    yield case("Flatten", x, axis=2)
    yield case("Flatten", x, axis=0)
    yield case("Expand", floats(3, 1), ints(2, 1, 4))
    yield case("Expand", floats(1), ints(2, 3))
    yield case("Tile", floats(2, 3), ints(2, 1))
    yield case("Tile", floats(2, 1), ints(3, 4))
    for starts, ends, axes, steps in (
            ([1], [3], [2], [1]), ([0], [4], [2], [2]), ([-1], [-9], [1], [-1]),
            ([3, 0], [0, 1], [2, 0], [-2, 1]), ([1], [100], [-1], [1])):
        yield case("Slice", x, ints(*starts), ints(*ends), ints(*axes),
                   ints(*steps))
    for mode in ("constant", "reflect", "edge", "wrap"):
        yield case("Pad", floats(3, 4), ints(0, 2, 1, 1), mode=mode)
    for axis in (0, 1, -1):
        yield case("Concat", floats(2, 2), floats(2, 2, seed=1), axis=axis)
    yield case("Concat", floats(2, 1), floats(2, 3), floats(2, 2), axis=1)
    yield case("Concat", floats(2, 0), floats(2, 3), axis=1)
    yield case("Split", floats(2, 5), ints(2, 3), outputs=2, axis=1)
    yield case("Split", floats(4, 1), outputs=2, num_outputs=2)
    yield case("Split", floats(2, 5), ints(2, 3), outputs=2, kept=[1], axis=1)
    for upper, k in ((1, 0), (0, 0), (1, 1), (0, -1)):
        yield case("Trilu", floats(2, 3, 4), np.array(k), upper=upper)
    for mode in ("DCR", "CRD"):
        yield case("DepthToSpace", floats(1, 8, 2, 3), blocksize=2, mode=mode)
    yield case("SpaceToDepth", floats(1, 2, 4, 6), blocksize=2)


def indexing():
    x = floats(3, 4)
    yield case("Gather", x, ints(2, 0, 2))
    yield case("Gather", x, ints(1, -1), axis=1)
    yield case("Gather", x, np.array([[0, 1], [1, 3]]), axis=-1)
    yield case("Gather", x, np.array(1))
    yield case("Gather", floats(2, 3, 2), np.array([[0, 2]]), axis=1)
    yield case("GatherElements", x, np.array([[0, 3], [1, 1], [-1, 2]]), axis=1)
    yield case("GatherElements", x, np.array([[2, -1, 0, 1]]), axis=0)
    yield case("GatherND", x, np.array([[0, 1], [2, 3], [0, 1]]))
    yield case("GatherND", x, np.array([[1], [1]]))
    yield case("GatherND", floats(2, 3, 2), np.array([[1], [0]]), batch_dims=1)
    for padding in ("zeros", "border", "reflection"):
        yield case("GridSample", floats(2, 3, 4, 5), floats(2, 2, 3, 2, seed=3),
                   padding_mode=padding)
    yield case("GridSample", floats(1, 2, 4, 5), floats(1, 2, 3, 2, seed=3),
               align_corners=1)
    yield case("GridSample", floats(1, 2, 4, 5), floats(1, 2, 3, 2, seed=3),
               mode="cubic")
    places = np.array([[0, 1], [2, 0]])
    for reduction in ("none", "add", "mul", "max", "min"):
        yield case("ScatterElements", x, places, floats(2, 2, seed=3), axis=1,
                   reduction=reduction)
        yield case("ScatterND", x, np.array([[0], [2]]), floats(2, 4, seed=3),
                   reduction=reduction)
    yield case("ScatterElements", x, np.array([[0, 0], [2, 2]]),
               floats(2, 2, seed=3), axis=0, reduction="add")
    yield case("ScatterND", x, np.array([[0, 1], [0, 1], [2, 3]]),
               floats(3, seed=3), reduction="add")


def windows():
    yield case("Conv", floats(1, 2, 5), floats(3, 2, 3, seed=1))
    yield case("Conv", floats(2, 2, 4, 5), floats(3, 2, 3, 2, seed=1),
               floats(3, seed=2), pads=[1, 0, 1, 1])
    yield case("Conv", floats(1, 3, 4, 4), floats(2, 3, 2, 2, seed=1),
               floats(2, seed=2), strides=[2, 2])
    yield case("Conv", floats(1, 4, 5), floats(4, 2, 2, seed=1), group=2)
    yield case("Conv", floats(1, 3, 6), floats(3, 1, 3, seed=1), group=3,
               pads=[1, 1])
    yield case("Conv", floats(1, 1, 7), floats(2, 1, 2, seed=1), dilations=[3])
    yield case("Conv", floats(1, 2, 3, 3), floats(2, 2, 1, 1, seed=1))
    yield case("Conv", floats(1, 4, 2, 3, 3), floats(4, 2, 1, 2, 2, seed=1),
               group=2)
    yield case("AveragePool", floats(1, 2, 6), kernel_shape=[2], strides=[2])
    yield case("AveragePool", floats(1, 1, 4, 4), kernel_shape=[3, 3],
               pads=[1, 1, 1, 1], count_include_pad=1)
    yield case("AveragePool", floats(1, 1, 4, 4), kernel_shape=[3, 3],
               pads=[1, 1, 1, 1])
    yield case("MaxPool", floats(1, 2, 6), kernel_shape=[2], strides=[2])
    yield case("MaxPool", floats(1, 1, 4, 4), kernel_shape=[3, 3],
               pads=[1, 1, 1, 1])
    # One window, which begins inside and ends outside.
    yield case("AveragePool", floats(1, 2, 4), kernel_shape=[5], strides=[4],
               ceil_mode=1)
    yield case("MaxPool", floats(1, 2, 4), kernel_shape=[5], strides=[4],
               ceil_mode=1)
    yield case("GlobalAveragePool", floats(2, 2, 3, 2))
    # The reference reduces the wrong axes of anything but images.
    yield case("GlobalMaxPool", floats(2, 2, 3, 2))
    yield case("ConvTranspose", floats(1, 2, 4), floats(2, 3, 3, seed=1))
    yield case("ConvTranspose", floats(1, 2, 3, 4), floats(2, 3, 3, 2, seed=1),
               floats(3, seed=2), strides=[2, 3], pads=[1, 0, 1, 1])
    yield case("LpPool", floats(1, 2, 6), kernel_shape=[3], strides=[2])


def losses():
    labels = ints(1, 0, 2, 4)
    scores, weights = floats(4, 5), positive(5)
    for reduction in ("mean", "sum", "none"):
        for op in ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"):
            yield case(op, scores, labels, reduction=reduction)
            yield case(op, scores, labels, weights, reduction=reduction)
            yield case(op, scores, labels, reduction=reduction, ignore_index=0)
    deep = np.array([[0, 2, 1], [1, 1, 0]])
    yield case("SoftmaxCrossEntropyLoss", floats(2, 3, 3), deep)
    yield case("SoftmaxCrossEntropyLoss", floats(2, 3, 3), deep, outputs=2)
    yield case("NegativeLogLikelihoodLoss", floats(2, 3, 3), deep)


def attention():
    def heads(q, kv, sizes=(3, 3), width=4, values=None):
        return [floats(2, q, sizes[0], width),
                floats(2, kv, sizes[1], width, seed=1),
                floats(2, kv, sizes[1], values or width, seed=2)]
    yield case("Attention", *heads(2, 2))
    yield case("Attention", *heads(2, 2), is_causal=1)
    yield case("Attention", *heads(2, 2, (3, 5)))
    yield case("Attention", *heads(4, 2), is_causal=1)
    yield case("Attention", *heads(4, 1))
    yield case("Attention", *heads(2, 2), scale=0.7)
    yield case("Attention", *heads(2, 2), softcap=1.5)
    yield case("Attention", *heads(2, 2), ~np.eye(3, dtype=bool))
    yield case("Attention", *heads(2, 2), floats(3, 3, seed=4))
    yield case("Attention", *heads(1, 1, (1, 1), 2))
    yield case("Attention", *heads(2, 2, values=3), is_causal=1)
    yield case("Attention", *heads(2, 1, values=5))
    flat = [floats(2, 3, 8, seed=i) for i in range(3)]
    yield case("Attention", *flat, q_num_heads=2, kv_num_heads=2)
    yield case("Attention", *flat[:1], floats(2, 3, 4), floats(2, 3, 4, seed=7),
               q_num_heads=4, kv_num_heads=2, is_causal=1)
    angles = floats(2, 3, 2)
    tables = np.cos(angles), np.sin(angles)
    yield case("RotaryEmbedding", floats(2, 2, 3, 4), *tables)
    yield case("RotaryEmbedding", floats(2, 2, 3, 4), *tables, interleaved=1)
    yield case("RotaryEmbedding", floats(2, 2, 3, 6), *tables,
               rotary_embedding_dim=4)
    yield case("RotaryEmbedding", floats(2, 3, 8), *tables, num_heads=2)
    positions = np.array([[0, 1, 2], [3, 1, 0]])
    yield case("RotaryEmbedding", floats(2, 2, 3, 4), np.cos(floats(5, 2)),
               np.sin(floats(5, 2)), positions)


def loops():
    """Bodies are typed by what they are given, f32 here and f64 in the reference."""
    def body(name, nodes, inputs, outputs):
        def values(names):
            return [onnx.ValueInfoProto(name=each) for each in names]
        return helper.make_graph([helper.make_node(op, words, [to], **attributes)
                                  for op, words, to, attributes in nodes],
                                 name, values(inputs), values(outputs))
    decay = body("decay", [("Mul", ["s", "g"], "m", {}), ("Add", ["m", "t"], "n", {}),
                           ("Tanh", ["n"], "u", {})], ["s", "t", "g"], ["n", "u"])
    yield case("Scan", floats(3), floats(4, 3, seed=1), positive(4, 3), outputs=2,
               body=decay, num_scan_inputs=2)
    yield case("Scan", floats(2, 3), floats(1, 2, 3, seed=1), positive(1, 2, 3), outputs=2,
               kept=[1], body=decay, num_scan_inputs=2)
    power = body("power", [("Identity", ["c"], "k", {}), ("Mul", ["x", "x"], "q", {}),
                           ("Sin", ["q"], "n", {}), ("Add", ["x", "y"], "m", {})],
                 ["i", "c", "x", "y"], ["k", "n", "m"])
    yield case("Loop", np.array(3), np.array(True), floats(2, 2), floats(2, 2, seed=1),
               outputs=2, body=power)


FAMILIES = (unary, binary, reductions, norms, products, transforms, shapes,
            indexing, windows, losses, attention, loops)


def all_cases():
    return [one for family in FAMILIES for one in family()]
