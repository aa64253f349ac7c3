# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The random numbers of our programs, by the definition in runtime/Random.h,
and PyTorch that draws them."""

import contextlib
import itertools
import math
from unittest import mock

import numpy
import torch


def finalise(x):
    """splitmix64's finaliser, on arrays."""
    x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xbf58476d1ce4e5b9)
    x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94d049bb133111eb)
    return x ^ (x >> numpy.uint64(31))


def bits(shape, op, first, seed=0):
    """What an op draws: samples along axis 0, the first being `first`."""
    shape = tuple(shape)
    rest = shape[1:] or (1,)
    step = numpy.uint64(0x9e3779b97f4a7c15)
    with numpy.errstate(over="ignore"):
        stream = finalise(finalise(numpy.uint64([seed]) + step)
                          ^ finalise(~numpy.uint64([op])))
        rows = shape[0] * math.prod(rest[:-1])
        row = numpy.arange(rows, dtype=numpy.uint64)
        row += numpy.uint64(first * (rows // shape[0]))
        key = finalise(stream + row * step)[:, None]
        x = numpy.arange(rest[-1], dtype=numpy.uint32)[None, :]
        x = x + key.astype(numpy.uint32)
        x = (x ^ (x >> numpy.uint32(17))) * numpy.uint32(0xed5ad4bb)
        x = (x ^ (x >> numpy.uint32(11))) + (key >> numpy.uint64(32)).astype(
            numpy.uint32)
        x = x * numpy.uint32(0xac4c1b51)
        x = (x ^ (x >> numpy.uint32(15))) * numpy.uint32(0x31848bab)
        x = x ^ (x >> numpy.uint32(14))
    return x.reshape(shape)


class Drawn:
    """PyTorch's functions, on what one forward pass of a program draws: each
    call is the next op of the graph."""

    def __init__(self, first):
        self.first, self.ops = first, itertools.count()

    def bits(self, shape):
        return bits(shape, next(self.ops), self.first)

    def kept(self, shape, ratio):
        return torch.from_numpy(
            self.bits(shape) >= numpy.uint32(int(ratio * 2**32)))

    def rand(self, *shape, **_):
        shape = shape[0] if len(shape) == 1 else shape
        fraction = (self.bits(shape) >> numpy.uint32(8)) * 2.0**-24
        return torch.from_numpy(fraction.astype(numpy.float32))

    def randn(self, *shape, **_):
        u, v = self.rand(*shape), self.rand(*shape)
        return (-2 * (1 - u).log()).sqrt() * (2 * math.pi * v).cos()

    def dropout(self, x, p=0.5, training=True, inplace=False):
        if not training or p == 0:
            return x
        return x * self.kept(x.shape, p) / (1 - p)


@contextlib.contextmanager
def ours(first):
    """Within it, PyTorch draws what a program draws for samples from `first`
    on. Exported scaled_dot_product_attention does not drop."""
    drawn = Drawn(first)
    with contextlib.ExitStack() as patched:
        for of, name, function in (
                (torch, "rand", drawn.rand),
                (torch, "rand_like", lambda x, **_: drawn.rand(x.shape)),
                (torch, "randn", drawn.randn),
                (torch, "randn_like", lambda x, **_: drawn.randn(x.shape)),
                (torch, "bernoulli",
                 lambda p: (drawn.rand(p.shape) < p).to(p.dtype)),
                # A mask of one chance becomes dropout.
                (torch.Tensor, "bernoulli_",
                 lambda x, p: x.copy_(drawn.kept(x.shape, 1 - p))),
                (torch.nn.functional, "dropout", drawn.dropout)):
            patched.enter_context(mock.patch.object(of, name, function))
        yield
