# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights as --gather-dtype sends them: forward and backward see what is left
of them, the optimizer steps the weights themselves (straight through).

Blocks of 256 begin with each parameter. Their scale is the least power of two
with which the largest of them is a code; the rounding to floats is torch's own
cast. The models' weights are whole blocks, so that those that our compiler
joins share none.
"""

import contextlib

import torch

BLOCK = 256
LARGEST = {"int8": 127, "fp8": 448}


def rounded(x, kind):
    if kind == "bf16":
        return x.to(torch.bfloat16).to(x.dtype)
    flat = x.detach().double().flatten()
    blocks = torch.nn.functional.pad(flat, (0, -flat.numel() % BLOCK))
    blocks = blocks.reshape(-1, BLOCK)
    ratio = blocks.abs().amax(dim=1, keepdim=True) / LARGEST[kind]
    mantissa, exponent = torch.frexp(ratio)
    exponent -= (mantissa == 0.5).to(exponent.dtype)
    scale = torch.ldexp(torch.ones_like(ratio), exponent.clamp(min=-126))
    codes = blocks / scale
    codes = (codes.round() if kind == "int8"
             else codes.float().to(torch.float8_e4m3fn).double())
    values = (codes * scale).flatten()[: flat.numel()]
    return values.reshape(x.shape).to(x.dtype)


@contextlib.contextmanager
def gathered(module, kind):
    """What a step's products read."""
    trained = [p for p in module.parameters() if kind and p.requires_grad]
    masters = [p.data for p in trained]
    for parameter in trained:
        parameter.data = rounded(parameter.data, kind)
    yield
    for parameter, master in zip(trained, masters):
        parameter.data = master
