# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX ops as PyTorch computes them, for their gradients.

Each function is given a node and its inputs as tensors (None: absent), and gives
one tensor or several.
"""

import numpy as np
import onnx
import torch
import torch.nn.functional as F

OPS = {}


class Unjudged(Exception):
    """PyTorch has nothing that is this op with these attributes."""


def op(*names):
    def register(function):
        OPS.update(dict.fromkeys(names, function))
        return function
    return register


def simple(name, function):
    OPS[name] = lambda node, *inputs: function(*inputs)


def attribute(node, name, default):
    value = node.attributes.get(name, default)
    return value.decode() if isinstance(value, bytes) else value


for name in ("Exp", "Log", "Sqrt", "Reciprocal", "Sigmoid", "Tanh", "Erf",
             "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh",
             "Asinh", "Acosh", "Atanh", "Floor", "Ceil", "Round", "Abs", "Neg",
             "Sign", "Relu"):
    simple(name, getattr(torch, name.lower()))
simple("Softplus", lambda x: F.softplus(x, threshold=1e9))
simple("Softsign", F.softsign)
simple("HardSwish", F.hardswish)
simple("Mish", F.mish)
simple("Add", torch.add)
simple("Sub", torch.sub)
simple("Mul", torch.mul)
simple("Div", torch.div)
simple("Pow", torch.pow)
simple("MatMul", torch.matmul)
simple("PRelu", lambda x, slope: torch.where(x > 0, x, slope * x))
simple("Where", torch.where)


@op("LeakyRelu")
def leaky_relu(node, x):
    return F.leaky_relu(x, attribute(node, "alpha", 0.01))


@op("Elu", "Celu", "Selu")
def exponential_unit(node, x):
    selu = node.op == "Selu"
    alpha = attribute(node, "alpha", 1.67326319217681884765625 if selu else 1.0)
    scale = attribute(node, "gamma", 1.05070102214813232421875) if selu else 1
    divisor = alpha if node.op == "Celu" else 1
    low = torch.where(x > 0, torch.zeros_like(x), x)
    return scale * torch.where(x > 0, x, alpha * torch.expm1(low / divisor))


@op("HardSigmoid")
def hard_sigmoid(node, x):
    y = attribute(node, "alpha", 0.2) * x + attribute(node, "beta", 0.5)
    return torch.where(y <= 0, torch.zeros_like(y),
                       torch.where(y >= 1, torch.ones_like(y), y))


@op("ThresholdedRelu")
def thresholded_relu(node, x):
    return torch.where(x > attribute(node, "alpha", 1.0), x, torch.zeros_like(x))


@op("Shrink")
def shrink(node, x):
    bias, limit = attribute(node, "bias", 0.0), attribute(node, "lambd", 0.5)
    return torch.where(x < -limit, x + bias, torch.where(
        x > limit, x - bias, torch.zeros_like(x)))


@op("Gelu")
def gelu(node, x):
    return F.gelu(x, approximate=attribute(node, "approximate", "none"))


@op("Clip")
def clip(node, x, low=None, high=None):
    if node.opset < 11:
        bounds = (attribute(node, name, None) for name in ("min", "max"))
        low, high = (bound if bound is None else
                     torch.tensor(bound, dtype=x.dtype) for bound in bounds)
    # As with bounds that are numbers, a gradient at a bound is the operand's.
    if low is not None:
        x = torch.where(x < low, low, x)
    return x if high is None else torch.where(x > high, high, x)


@op("Mod")
def mod(node, x, y):
    return torch.fmod(x, y)


@op("Min", "Max", "Sum", "Mean")
def variadic(node, x, *more):
    join = {"Min": torch.minimum, "Max": torch.maximum}.get(node.op, torch.add)
    for each in more:
        x = join(x, each)
    return x / (1 + len(more)) if node.op == "Mean" else x


@op("Cast", "CastLike")
def cast(node, x, like=None):
    same = like.dtype == x.dtype if like is not None else \
        node.attributes["to"] == onnx.TensorProto.FLOAT
    if not same:
        raise Unjudged(node.op)
    return x


# ---- Along axes

@op("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd",
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp",
    "ReduceSumSquare")
def reduce(node, x, axes=None):
    keep = bool(attribute(node, "keepdims", 1))
    axes = attribute(node, "axes", None) if axes is None else axes
    axes = [] if axes is None else [int(a) % x.ndim for a in axes]
    if not axes and attribute(node, "noop_with_empty_axes", 0):
        return x
    axes = axes or list(range(x.ndim))
    if not axes:  # a scalar: as a row of one
        x, axes, keep = x.reshape(1), [0], False
    if node.op == "ReduceProd":
        for axis in sorted(axes, reverse=True):
            x = torch.prod(x, axis, keepdim=keep)
        return x
    function = {
        "ReduceSum": torch.sum, "ReduceMean": torch.mean,
        "ReduceMax": torch.amax, "ReduceMin": torch.amin,
        "ReduceL1": lambda x, *more: torch.sum(torch.abs(x), *more),
        "ReduceL2": lambda x, *more: torch.linalg.vector_norm(x, 2, *more),
        "ReduceLogSum": lambda x, *more: torch.log(torch.sum(x, *more)),
        "ReduceLogSumExp": torch.logsumexp,
        "ReduceSumSquare": lambda x, *more: torch.sum(x * x, *more)}[node.op]
    return function(x, tuple(axes), keep)


@op("Softmax", "LogSoftmax")
def softmax(node, x):
    function = F.softmax if node.op == "Softmax" else F.log_softmax
    if node.opset < 13:
        axis = attribute(node, "axis", 1)
        return function(x.flatten(axis), -1).reshape(x.shape)
    return function(x, attribute(node, "axis", -1))


@op("CumSum")
def cumsum(node, x, axis):
    axis = int(axis)
    reverse = attribute(node, "reverse", 0)
    x = x.flip(axis) if reverse else x
    sums = x.cumsum(axis)
    if attribute(node, "exclusive", 0):
        sums = torch.cat([torch.zeros_like(x.narrow(axis, 0, 1)),
                          sums.narrow(axis, 0, x.shape[axis] - 1)], axis)
    return sums.flip(axis) if reverse else sums


@op("LpNormalization")
def lp_normalization(node, x):
    axis, p = attribute(node, "axis", -1), attribute(node, "p", 2)
    return x / torch.linalg.vector_norm(x, p, axis, True)


@op("LayerNormalization")
def layer_normalization(node, x, scale, bias=None):
    axis = attribute(node, "axis", -1)
    return F.layer_norm(x, x.shape[axis:], scale, bias,
                        attribute(node, "epsilon", 1e-5))


@op("RMSNormalization")
def rms_normalization(node, x, scale):
    axis = attribute(node, "axis", -1)
    return F.rms_norm(x, x.shape[axis:], scale,
                      attribute(node, "epsilon", 1e-5))


@op("Dropout")
def dropout(node, x):
    return x


def beside(vector, x):
    return vector.reshape(1, -1, *[1] * (x.ndim - 2))


@op("BatchNormalization")
def batch_normalization(node, x, scale, bias, mean, variance):
    epsilon = attribute(node, "epsilon", 1e-5)
    spread = torch.sqrt(beside(variance, x) + epsilon)
    return (x - beside(mean, x)) / spread * beside(scale, x) + beside(bias, x)


@op("InstanceNormalization", "GroupNormalization")
def group_normalization(node, x, scale, bias):
    groups = attribute(node, "num_groups", x.shape[1])
    rows = x.reshape(x.shape[0], groups, -1)
    spread = rows.var(-1, unbiased=False, keepdim=True)
    rows = (rows - rows.mean(-1, keepdim=True)) / torch.sqrt(
        spread + attribute(node, "epsilon", 1e-5))
    return rows.reshape(x.shape) * beside(scale, x) + beside(bias, x)


@op("MeanVarianceNormalization")
def mean_variance(node, x):
    axes = tuple(attribute(node, "axes", (0, 2, 3)))
    mean = x.mean(axes, True)
    spread = torch.sqrt((x * x).mean(axes, True) - mean * mean)
    return (x - mean) / (spread + 1e-9)


# ---- Products and windows

@op("Gemm")
def gemm(node, a, b, c=None):
    a = a.T if attribute(node, "transA", 0) else a
    b = b.T if attribute(node, "transB", 0) else b
    y = attribute(node, "alpha", 1.0) * (a @ b)
    return y if c is None else y + attribute(node, "beta", 1.0) * c


@op("Einsum")
def einsum(node, *inputs):
    return torch.einsum(attribute(node, "equation", ""), *inputs)


def pads_of(node, spatial):
    if attribute(node, "auto_pad", "NOTSET") not in ("NOTSET", "VALID") or \
            attribute(node, "ceil_mode", 0):
        raise Unjudged
    return list(attribute(node, "pads", [0] * spatial * 2))[:spatial]


@op("Conv", "ConvTranspose")
def convolution(node, x, w, bias=None):
    spatial = x.ndim - 2
    turned = "_transpose" if node.op == "ConvTranspose" else ""
    function = getattr(F, f"conv{turned}{spatial}d")
    return function(x, w, bias,
                    stride=attribute(node, "strides", [1] * spatial),
                    padding=pads_of(node, spatial),
                    dilation=attribute(node, "dilations", [1] * spatial),
                    groups=attribute(node, "group", 1))


@op("MaxPool")
def max_pool(node, x):
    spatial = x.ndim - 2
    pads = pads_of(node, spatial)
    kernel = attribute(node, "kernel_shape", None)
    around = [p for pad in reversed(pads) for p in (pad, pad)]
    return getattr(F, f"max_pool{spatial}d")(
        F.pad(x, around, value=-torch.inf), kernel,
        attribute(node, "strides", [1] * spatial), 0,
        attribute(node, "dilations", [1] * spatial))


@op("AveragePool")
def average_pool(node, x):
    spatial = x.ndim - 2
    if max(attribute(node, "dilations", [1])) > 1:
        raise Unjudged
    return getattr(F, f"avg_pool{spatial}d")(
        x, attribute(node, "kernel_shape", None),
        attribute(node, "strides", [1] * spatial), pads_of(node, spatial),
        False, bool(attribute(node, "count_include_pad", 0)))


@op("LpPool")
def lp_pool(node, x):
    spatial, p = x.ndim - 2, attribute(node, "p", 2)
    if max(attribute(node, "dilations", [1])) > 1:
        raise Unjudged
    kernel = attribute(node, "kernel_shape", None)
    means = getattr(F, f"avg_pool{spatial}d")(
        x.abs() ** p, kernel, attribute(node, "strides", [1] * spatial),
        pads_of(node, spatial))
    return (means * int(np.prod(kernel))) ** (1 / p)


@op("GlobalAveragePool")
def global_average(node, x):
    return x.mean(tuple(range(2, x.ndim)), True)


@op("GlobalMaxPool")
def global_max(node, x):
    return F.max_pool1d(x.flatten(2), x[0, 0].numel()).reshape(
        *x.shape[:2], *[1] * (x.ndim - 2))


# ---- Attention

@op("Attention")
def attention(node, q, k, v, mask=None, past_key=None, past_value=None):
    flat = q.ndim == 3
    if flat:
        def heads(x, name):
            count = attribute(node, name, 1)
            return x.unflatten(-1, (count, -1)).transpose(1, 2)
        q = heads(q, "q_num_heads")
        k, v = heads(k, "kv_num_heads"), heads(v, "kv_num_heads")
    past = 0 if past_key is None else past_key.shape[2]
    if past:
        k, v = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
    present = k, v
    repeats = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(repeats, 1) for x in (k, v))
    scale = attribute(node, "scale", q.shape[-1] ** -0.5)
    scores = scale * (q @ k.transpose(-1, -2))
    hidden = torch.zeros_like(scores, dtype=torch.bool)
    if attribute(node, "is_causal", 0):
        hidden = hidden | ~torch.ones(scores.shape[-2:]).tril(past).bool()
    if cap := attribute(node, "softcap", 0.0):
        scores = cap * torch.tanh(scores / cap)
    if mask is not None:
        if mask.dtype == torch.bool:
            hidden = hidden | ~mask
        else:
            scores = scores + mask
    scores = scores.masked_fill(hidden, -torch.inf)
    result = torch.softmax(scores, -1) @ v
    if flat:
        result = result.transpose(1, 2).flatten(2)
    return (result, *present)


@op("RotaryEmbedding")
def rotary(node, x, cosines, sines, ids=None):
    if ids is not None:
        cosines, sines = cosines[ids], sines[ids]
    flat = x.ndim == 3
    if flat:
        x = x.unflatten(-1, (attribute(node, "num_heads", 1), -1))
    else:
        x = x.transpose(1, 2)
    part = attribute(node, "rotary_embedding_dim", 0) or x.shape[-1]
    turned, rest = x[..., :part], x[..., part:]
    cosines, sines = cosines[:, :, None], sines[:, :, None]
    if attribute(node, "interleaved", 0):
        a, b = turned[..., ::2], turned[..., 1::2]
    else:
        a, b = turned.chunk(2, -1)
    a, b = a * cosines - b * sines, b * cosines + a * sines
    turned = torch.stack([a, b], -1).flatten(-2) \
        if attribute(node, "interleaved", 0) else torch.cat([a, b], -1)
    x = torch.cat([turned, rest], -1)
    return x.flatten(2) if flat else x.transpose(1, 2)


# ---- Recurrence

def step_lstm(node, gates, h, c, w, r, bias):
    i, o, f, g = (gates + h @ r.T + bias[1]).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def step_gru(node, gates, h, c, w, r, bias):
    z, reset, new = gates.chunk(3, -1)
    rz, rr, rn = r.chunk(3)
    bz, br, bn = bias[1].chunk(3)
    z = torch.sigmoid(z + h @ rz.T + bz)
    reset = torch.sigmoid(reset + h @ rr.T + br)
    if attribute(node, "linear_before_reset", 0):
        new = torch.tanh(new + reset * (h @ rn.T + bn))
    else:
        new = torch.tanh(new + (reset * h) @ rn.T + bn)
    return (1 - z) * new + z * h, c


def step_rnn(node, gates, h, c, w, r, bias):
    return torch.tanh(gates + h @ r.T + bias[1]), c


@op("LSTM", "GRU", "RNN")
def recurrent(node, x, w, r, bias=None, lengths=None, h0=None, c0=None):
    step = {"LSTM": step_lstm, "GRU": step_gru, "RNN": step_rnn}[node.op]
    size = attribute(node, "hidden_size", 0)
    zeros = x.new_zeros(w.shape[0], x.shape[1], size)
    h0 = zeros if h0 is None else h0
    c0 = zeros if c0 is None else c0
    if bias is None:
        bias = x.new_zeros(w.shape[0], 2 * w.shape[1])
    direction = attribute(node, "direction", "forward")
    ways, last_h, last_c = [], [], []
    for way in range(w.shape[0]):
        back = direction == "reverse" or way == 1
        h, c, made = h0[way], c0[way], []
        halves = bias[way].chunk(2)
        for t in reversed(range(len(x))) if back else range(len(x)):
            gates = x[t] @ w[way].T + halves[0]
            h, c = step(node, gates, h, c, w[way], r[way], halves)
            made.append(h)
        ways.append(torch.stack(made[::-1] if back else made))
        last_h.append(h)
        last_c.append(c)
    results = torch.stack(ways, 1), torch.stack(last_h), torch.stack(last_c)
    return results if node.op == "LSTM" else results[:2]


# ---- Losses

@op("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(node, x, labels, weights=None):
    ignored = attribute(node, "ignore_index", -100)
    reduction = attribute(node, "reduction", "mean")
    logs = x if node.op.startswith("Neg") else F.log_softmax(x, 1)
    counted = labels != ignored
    labels = torch.where(counted, labels, 0)
    each = -logs.gather(1, labels.unsqueeze(1)).squeeze(1)
    # PyTorch's own has no gradient of the weights.
    scale = torch.ones_like(each) if weights is None else weights[labels]
    scale = torch.where(counted, scale, 0)
    each = torch.where(counted, scale * each, 0)
    result = {"none": lambda: each, "sum": each.sum,
              "mean": lambda: each.sum() / scale.sum()}[reduction]()
    return result if node.op.startswith("Neg") else (result, logs)


# ---- Scattering

@op("ScatterElements")
def scatter_elements(node, x, index, updates):
    axis = attribute(node, "axis", 0)
    index = torch.where(index < 0, index + x.shape[axis], index)
    return scattered(node, x, axis, index, updates)


def scattered(node, x, axis, index, updates):
    kind = attribute(node, "reduction", "none")
    if kind == "none":
        return x.scatter(axis, index, updates)
    kind = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[kind]
    return x.scatter_reduce(axis, index, updates, kind)


@op("ScatterND")
def scatter_nd(node, x, index, updates):
    depth = index.shape[-1]
    lead = x.shape[:depth]
    strides = [int(np.prod(lead[i + 1:])) for i in range(depth)]
    places = sum((index[..., i] % lead[i]) * s for i, s in enumerate(strides))
    rows = x.reshape(int(np.prod(lead)), -1)
    updates = updates.reshape(places.numel(), -1)
    places = places.reshape(-1, 1).expand_as(updates)
    return scattered(node, rows, 0, places, updates).reshape(x.shape)
