# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linear layers that multiply torch's floats of 8 bits (--matmul-dtype).

torchao's recipes, with its scales rounded down to powers of two: `fp8` is
tensorwise, `fp8:rowwise` is rowwise_with_gw_hp. The rounding is torch's own
cast to float8; products are of the values that it gives, in f32.
"""

import torch

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def rounded(x, dtype, axis=None):
    """x as a float of 8 bits stands for it, with one scale, or one for each
    index of the other axes."""
    amax = x.abs().amax() if axis is None else x.abs().amax(axis, keepdim=True)
    scale = torch.finfo(dtype).max / amax.float().clamp(min=1e-12)
    scale = torch.ldexp(torch.ones_like(scale), torch.frexp(scale)[1] - 1)
    return ((x.float() * scale).to(dtype).float() / scale).to(x.dtype)


class Product(torch.autograd.Function):
    """x·wᵀ and its gradients."""

    @staticmethod
    def forward(context, x, weight, recipe):
        rows, back = x.reshape(-1, x.shape[-1]), rounded(weight, E4M3)
        if recipe == "fp8":
            low, factor = rounded(rows, E4M3), back
            rows = low
        else:
            low, factor = rounded(rows, E4M3, 1), rounded(weight, E4M3, 1)
        context.save_for_backward(rows, back)
        context.recipe = recipe
        return (low @ factor.T).reshape(*x.shape[:-1], -1)

    @staticmethod
    def backward(context, gradient):
        rows, back = context.saved_tensors
        g = gradient.reshape(-1, gradient.shape[-1])
        if context.recipe == "fp8":
            low = g = rounded(g, E5M2)
        else:
            low = rounded(g, E4M3, 1)
        return ((low @ back).reshape(*gradient.shape[:-1], -1), g.T @ rows,
                None)


class Joined:
    """Layers that read the same rows: one product of their weights one below
    the other, as nn-join-products makes it."""

    def __init__(self, layers, recipe):
        self.layers, self.recipe, self.rows = layers, recipe, None
        for index, layer in enumerate(layers):
            layer.forward = lambda x, index=index: self.part(index, x)

    def part(self, index, x):
        if self.rows is not x:
            weights = [weight_of(layer) for layer in self.layers]
            product = Product.apply(x, torch.cat(weights), self.recipe)
            self.rows = x
            self.parts = product.split([len(w) for w in weights], -1)
        part, bias = self.parts[index], self.layers[index].bias
        return part if bias is None else part + bias


def weight_of(layer):
    """[out, in], as GPT-2's Conv1D has it not."""
    if type(layer).__name__ == "Conv1D":
        return layer.weight.T
    return layer.weight


def convert(module, recipe):
    """Every linear layer of a block whose sizes are multiples of 16."""
    groups = [("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj")]
    for name, child in module.named_modules():
        if name.endswith("lm_head"):
            continue
        found = {n: layer for n, layer in child.named_children()
                 if type(layer).__name__ in ("Conv1D", "Linear")
                 and n != "lm_head"
                 and all(size % 16 == 0 for size in layer.weight.shape)}
        joined = [group for group in groups if all(n in found for n in group)]
        for group in joined:
            Joined([found.pop(n) for n in group], recipe)
        for layer in found.values():
            Joined([layer], recipe)
