# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of windows, attention, recurrence and losses."""

import numpy as np

import values
from ops import op
from values import BOOL, FLOAT, INT64


def windows(b, spatial, sizes, dilate=True):
    """Kernel, strides, dilations and pads that fit some sizes."""
    kernel = [b.integer(1, min(3, s)) for s in sizes]
    more = {"strides": [b.integer(1, 3) for _ in range(spatial)]
            if b.chance(0.5) else None}
    if dilate and b.chance(0.3):
        more["dilations"] = [b.integer(1, 2) if (k - 1) * 2 < s else 1
                             for k, s in zip(kernel, sizes)]
    if b.chance(0.3):
        # Windows that lie in the padding alone are nobody's rule.
        pads = [b.integer(0, k - 1) for k in kernel]
        more["pads"] = pads + pads
    elif b.chance(0.2):
        # Where windows leave gaps, ONNX Runtime pads by less than nothing.
        gaps = any(k < step for k, step in zip(kernel, more["strides"] or kernel))
        more["auto_pad"] = "VALID" if gaps else b.choice(
            ["SAME_UPPER", "SAME_LOWER", "VALID"])
        more.pop("dilations", None)
    return kernel, more


def image(b, channels=None):
    spatial = b.choice([1, 2, 2, 3])
    sizes = [b.integer(1, 7 if spatial < 3 else 4) for _ in range(spatial)]
    x = b.like(FLOAT, (b.integer(1, 2), channels or b.integer(1, 4), *sizes))
    return x, spatial, sizes


@op("Conv")
def conv(b):
    group = b.choice([1, 1, 2, 3])
    depthwise = group == 3  # a kernel for each channel
    x, spatial, sizes = image(b, group * (1 if depthwise else b.integer(1, 3)))
    kernel, more = windows(b, spatial, sizes)
    out = group * (1 if depthwise else b.integer(1, 3))
    w = b.like(FLOAT, (out, b.shape(x)[1] // group, *kernel))
    inputs = [x, w] + ([b.like(FLOAT, (out,))] if b.chance(0.5) else [])
    b.add("Conv", inputs, group=group, kernel_shape=kernel, **more)


@op("ConvTranspose")
def conv_transpose(b):
    group = b.choice([1, 1, 2])
    x, spatial, sizes = image(b, group * b.integer(1, 2))
    kernel, more = windows(b, spatial, sizes)
    more.pop("auto_pad", None)
    w = b.like(FLOAT, (b.shape(x)[1], b.integer(1, 2), *kernel))
    inputs = [x, w] + ([b.like(FLOAT, (group * b.shape(w)[1],))]
                       if b.chance(0.5) else [])
    b.add("ConvTranspose", inputs, group=group, kernel_shape=kernel, **more)


@op("pool")
def pool(b):
    x, spatial, sizes = image(b)
    name = b.choice(["MaxPool", "AveragePool", "MaxPool", "AveragePool",
                     "GlobalAveragePool", "GlobalMaxPool", "LpPool"])
    if name.startswith("Global"):
        return b.add(name, [x])
    kernel, more = windows(b, spatial, sizes, b.opset >= 19 or name == "MaxPool")
    if name == "AveragePool":
        more["count_include_pad"] = b.choice([None, 0, 1])
    if name == "LpPool":
        more["p"] = b.choice([1, 2])
    if "auto_pad" not in more and "dilations" not in more and \
            "pads" not in more and name != "LpPool" and b.chance(0.2):
        # A window that begins behind the end is one in some opsets only.
        if any(-(-(size - k) // step) * step >= size for size, k, step in zip(
                sizes, kernel, more["strides"] or [1] * spatial)):
            raise ValueError
        more["ceil_mode"] = 1
    return b.add(name, [x], kernel_shape=kernel, **more)


@op("Resize")
def resize(b):
    x = b.fresh(FLOAT, (1, b.integer(1, 2), b.integer(1, 6), b.integer(1, 6)))
    mode = b.choice(["nearest", "linear"])
    rounding = b.choice(["half_pixel", "asymmetric", "align_corners",
                         "pytorch_half_pixel"])
    sizes = [*b.shape(x)[:2], b.integer(1, 9), b.integer(1, 9)]
    nearest = b.choice(["floor", "ceil", "round_prefer_floor",
                        "round_prefer_ceil"]) if mode == "nearest" else None
    b.add("Resize", [x, "", "", b.known(*sizes)], mode=mode,
          coordinate_transformation_mode=rounding, nearest_mode=nearest)


# ---- Attention

@op("Attention", first=23, weight=3)
def attention(b):
    batch = b.integer(1, 2)
    heads = b.choice([1, 2, 3, 4, 6])
    groups = b.choice([h for h in (1, 2, 3, heads) if heads % h == 0])
    size, out = b.choice([1, 2, 4, 8]), b.choice([1, 2, 4, 8])
    queries, keys = b.choice([1, 2, 3, 5, 8]), b.choice([1, 2, 3, 5, 8])
    flat = b.chance(0.4)
    more = {"is_causal": b.choice([None, 0, 1]),
            "scale": b.choice([None, 0.5, 1.0]),
            "softcap": b.choice([None, None, 2.0])}

    def heads_of(count, length, width):
        sizes = (batch, length, count * width) if flat else \
            (batch, count, length, width)
        return b.like(FLOAT, sizes)
    inputs = [heads_of(heads, queries, size), heads_of(groups, keys, size),
              heads_of(groups, keys, out)]
    if flat:
        more |= {"q_num_heads": heads, "kv_num_heads": groups}
    # Of queries that are fewer than the keys since the past ONNX Runtime takes
    # the last for those that stand at the end; the standard counts from it.
    aligned = queries == keys or not more["is_causal"]
    past = b.integer(1, 3) if aligned and b.chance(0.2) else 0
    if b.chance(0.6) and not (more["is_causal"] and past):
        lead = b.choice([(), (batch, heads), (1, heads), (batch, 1), (1, 1)])
        inputs.append(mask(b, (*lead, queries, keys + past)))
    if past:
        inputs += [""] * (4 - len(inputs))
        inputs += [b.like(FLOAT, (batch, groups, past, w)) for w in (size, out)]
    b.add("Attention", inputs, 3 if past else 1, **more)


def mask(b, sizes):
    """One that leaves each query at least one key."""
    if b.chance(0.5):
        return b.fresh(FLOAT, sizes)
    hidden = b.rng.random(sizes) < 0.4
    hidden[..., 0] = False
    if b.chance(0.5):
        return b.leaf(~hidden)
    least = b.choice([-np.inf, float(np.finfo(np.float32).min)])
    return b.leaf(np.where(hidden, least, 0).astype(np.float32))


@op("RotaryEmbedding", first=23)
def rotary(b):
    batch, heads, length = b.integer(1, 2), b.integer(1, 3), b.integer(1, 5)
    size = b.choice([2, 4, 8])
    part = b.choice([None, None, *([size // 2] if size > 2 else [])])
    half = (part or size) // 2
    flat = b.chance(0.4)
    x = b.like(FLOAT, (batch, length, heads * size) if flat else
               (batch, heads, length, size))
    more = {"num_heads": heads if flat or part else None,
            "interleaved": b.choice([None, 1]), "rotary_embedding_dim": part}
    if b.chance(0.5):
        tables = [b.fresh(FLOAT, (9, half)) for _ in range(2)]
        ids = b.leaf(b.rng.integers(0, 9, (batch, length)).astype(np.int64))
        b.add("RotaryEmbedding", [x, *tables, ids], **more)
    else:
        tables = [b.fresh(FLOAT, (batch, length, half)) for _ in range(2)]
        b.add("RotaryEmbedding", [x, *tables], **more)


# ---- Recurrence

@op("recurrent")
def recurrent(b):
    name = b.choice(["LSTM", "GRU", "RNN"])
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
    length, batch, width, hidden = (b.integer(1, 4) for _ in range(4))
    direction = b.choice([None, "forward", "reverse", "bidirectional"])
    ways = 2 if direction == "bidirectional" else 1
    inputs = [b.like(FLOAT, (length, batch, width)),
              b.like(FLOAT, (ways, gates * hidden, width)),
              b.like(FLOAT, (ways, gates * hidden, hidden))]
    if b.chance(0.6):
        inputs.append(b.like(FLOAT, (ways, 2 * gates * hidden)))
        if b.chance(0.5):
            inputs += ["", b.like(FLOAT, (ways, batch, hidden))]
            if name == "LSTM":
                inputs.append(b.like(FLOAT, (ways, batch, hidden)))
    b.add(name, inputs, 3 if name == "LSTM" else 2, hidden_size=hidden,
          direction=direction, linear_before_reset=b.choice([0, 1])
          if name == "GRU" else None)


# ---- Losses

@op("loss")
def loss(b):
    batch, classes = b.integer(1, 5), b.integer(1, 7)
    rest = tuple(b.integer(1, 3) for _ in range(b.choice([0, 0, 1, 2])))
    x = b.like(FLOAT, (batch, classes, *rest))
    labels = b.rng.integers(0, classes, (batch, *rest))
    ignored = b.choice([None, -100, 0])
    if ignored is not None:
        labels[b.rng.random(labels.shape) < 0.3] = ignored
        labels.flat[0] = classes - 1 if classes > 1 else labels.flat[0]
    inputs = [x, b.leaf(labels.astype(np.int64))]
    if b.chance(0.4):
        inputs.append(b.leaf(b.rng.uniform(0.2, 2, classes).astype(np.float32)))
    more = {"ignore_index": ignored,
            "reduction": b.choice([None, "mean", "sum", "none"])}
    if b.chance(0.5):
        b.add("NegativeLogLikelihoodLoss", inputs, **more)
    else:
        b.add("SoftmaxCrossEntropyLoss", inputs, b.choice([1, 2]), **more)
