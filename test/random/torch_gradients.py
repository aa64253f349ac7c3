# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the gradients of a graph may be, by PyTorch in f64.

How far off one may be is measured as for outputs: the inputs are moved by their
rounding, as often, and PyTorch computes in f32 once.
"""

import warnings

import numpy as np
import torch

import judge
import torch_ops
import values

RELATIVE, OF_LARGEST, OF_MOVED = 1e-4, 4e-6, 6

# Ops that only move elements: which goes where the reference is asked.
MOVERS = {"Identity", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze",
          "Expand", "Tile", "Slice", "Split", "Concat", "Pad", "Trilu", "Gather",
          "GatherElements", "GatherND", "DepthToSpace", "SpaceToDepth",
          "ReverseSequence", "CenterCropPad"}


def move(node, inputs, known):
    """Each element of the outputs, by the reference, from which it comes."""
    data = range(len(inputs)) if node.op == "Concat" else [0]
    arrays = {name: known[name] for name in node.inputs if name}
    attributes = dict(node.attributes)
    filler = torch.full([1], attributes.pop("value", 0), dtype=inputs[0].dtype)
    if node.op == "Pad" and len(inputs) > 2 and inputs[2] is not None:
        filler = inputs[2].reshape(1)
        arrays[node.inputs[2]] = np.zeros((), np.float32)
    parts, count = [filler], 1
    # One value may be several operands of Concat.
    renamed = {}
    names = list(node.inputs)
    for i in data:
        size = inputs[i].numel()
        renamed[f"data{i}"] = np.arange(
            count, count + size, dtype=np.float32).reshape(inputs[i].shape)
        names[i] = f"data{i}"
        parts.append(inputs[i].reshape(-1))
        count += size
    arrays |= renamed
    arrays = {name: arrays[name] for name in names if name}
    moving = type(node)(node.op, names, node.outputs, attributes, node.opset)
    flat = torch.cat(parts)
    return [flat[torch.from_numpy(made.astype(np.int64))]
            for made in moving.evaluate(arrays)]


def resize(node, inputs, known):
    """What the reference makes of one image that is 1 at each place is the matrix
    that it multiplies by."""
    x = inputs[0]
    channels, height, width = x.shape[1:]
    count = height * width
    images = np.eye(count, dtype=np.float32).reshape(count, 1, height, width)
    sizes = known[node.inputs[3]].copy()
    sizes[:2] = count, 1
    one = type(node)(node.op, node.inputs, node.outputs, node.attributes,
                     node.opset)
    made, = one.evaluate({node.inputs[0]: images, node.inputs[3]: sizes})
    matrix = torch.from_numpy(made.reshape(count, -1)).to(x.dtype)
    return [(x.reshape(channels, count) @ matrix).reshape(
        1, channels, *made.shape[2:])]


def compute(node, inputs, known):
    if all(x is None or not x.is_floating_point() for x in inputs):
        return [tensor(known[name]) for name in node.outputs]
    if node.op in MOVERS:
        return move(node, inputs, known)
    if node.op == "Resize":
        return resize(node, inputs, known)
    if node.op == "TopK":
        order = tensor(known[node.outputs[1]])
        return [inputs[0].gather(node.attributes["axis"], order), order]
    if node.op not in torch_ops.OPS:
        raise torch_ops.Unjudged(node.op)
    made = torch_ops.OPS[node.op](node, *inputs)
    return list(made) if isinstance(made, tuple) else [made]


def tensor(array, wide=np.float64):
    if array.dtype.kind == "f":
        array = array.astype(wide)
    if array.dtype == values.INT32:
        array = array.astype(np.int64)
    return torch.from_numpy(np.array(array))


def run(graph, leaves, wide=np.float64):
    """Values of the float outputs, and the gradients of their sum."""
    tensors = {name: tensor(array, wide) for name, array in leaves.items()}
    floats = {name: t for name, t in tensors.items() if t.is_floating_point()}
    for name, each in floats.items():
        tensors[name] = floats[name] = each.requires_grad_()
    for node in graph.nodes:
        inputs = [tensors[n] if n else None for n in node.inputs]
        made = compute(node, inputs, graph.values)
        tensors |= zip([n for n in node.outputs if n], made)
    outputs = {name: tensors[name] for name in graph.outputs
               if tensors[name].is_floating_point()}
    total = sum(t.sum() for t in outputs.values())
    found = [None] * len(floats)
    if outputs and total.requires_grad:
        found = torch.autograd.grad(total, list(floats.values()),
                                    allow_unused=True)
    gradients = {name: np.zeros(t.shape) if g is None else g.numpy()
                 for (name, t), g in zip(floats.items(), found)}
    return {n: t.detach().numpy() for n, t in outputs.items()}, gradients


def moved_leaves(graph, seed):
    rng, turn = np.random.default_rng(seed // 2), 1e-6 - 2e-6 * (seed % 2)
    return {name: a if a.dtype != values.FLOAT else
            a * (1 + turn * rng.choice([-1.0, 1.0], a.shape))
            for name, a in graph.leaves().items()}


def agree(values_, graph):
    """Whether PyTorch's outputs are the reference's."""
    for name, array in values_.items():
        other = graph.values[name]
        if array.shape != other.shape or not np.allclose(
                array, other, rtol=1e-2, atol=1e-4 * max(1, np.abs(
                    array).max(initial=0)), equal_nan=True):
            return False
    return True


def difference(graph, result):
    """What is wrong with a graph's gradients, or nothing; None where PyTorch
    does not judge."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            forward, expected = run(graph, graph.leaves())
            if not agree(forward, graph):
                return None
            others = [run(graph, moved_leaves(graph, seed))[1]
                      for seed in range(judge.RUNS)]
            others.append(run(graph, graph.leaves(), np.float32)[1])
    except (torch_ops.Unjudged, RuntimeError):
        return None
    for name, gradient in expected.items():
        if name not in result.gradients:
            return f"there is no gradient of {name}"
        if said := compare(name, result.gradients[name], gradient,
                           [other[name] for other in others]):
            return said
    return ""


def compare(name, got, expected, others):
    """What is wrong with one gradient, or nothing. PyTorch multiplies a zero
    that it hands back by a derivative that is none; a program that knows of the
    zero does not."""
    if got.shape != expected.shape:
        return (f"the gradient of {name} has shape {list(got.shape)}, "
                f"not {list(expected.shape)}")
    with np.errstate(all="ignore"):
        finite = np.abs(expected[np.isfinite(expected)])
        allowed = RELATIVE * np.abs(expected) + OF_LARGEST * max(
            1, finite.max(initial=0))
        known = np.ones(expected.shape, bool)
        for other in others:
            known &= np.isfinite(other) == np.isfinite(expected)
            step = np.abs(other - expected)
            allowed = allowed + np.where(np.isfinite(step), OF_MOVED * step, 0)
        right = np.where(np.isfinite(expected),
                         np.abs(got - expected) <= allowed,
                         (got == expected) | (np.isnan(expected) &
                                              (np.isnan(got) | (got == 0))))
        bad = known & ~right
    if not bad.any():
        return ""
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    return (f"the gradient of {name}{list(place)} is {got[place]!r}, "
            f"not {expected[place]!r} ({int(bad.sum())} of {bad.size})")
