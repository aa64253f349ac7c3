# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the modules of this folder say of themselves, and their data."""

import dataclasses
import typing

import numpy
import torch

BATCH = 6      # samples of a rank and step
SAMPLES = 40   # no multiple of a step: the data starts again
VOCABULARY = 48
LENGTH = 12


@dataclasses.dataclass
class Entry:
    """A module, how it is called and what it is trained on."""
    make: typing.Callable
    samples: typing.Callable  # from a random generator to the arrays
    loss: str                 # graph: the forward pass returns it
    training: bool = False    # exported in training mode
    compile: tuple = ()       # options of the compiler


MODULES = {}


def module(samples, loss="graph", **other):
    """Enters a class of a module under its name."""
    def enter(made):
        MODULES[made.__name__] = Entry(made, samples, loss, **other)
        return made
    return enter


def build(name):
    """The module with weights that depend on its name alone."""
    entry = MODULES[name]
    torch.manual_seed(sum(name.encode()))
    return entry.make().train(entry.training)


def samples_of(name):
    random = numpy.random.default_rng(sum(name.encode()))
    return MODULES[name].samples(random)


def tokens(random, shape=(LENGTH,), low=0, high=VOCABULARY):
    return random.integers(low, high, (SAMPLES, *shape))


def floats(random, *shape):
    return random.standard_normal((SAMPLES, *shape), dtype=numpy.float32)


def language(random):
    """Tokens whose successor is no matter of chance alone, and that one."""
    step = random.integers(1, 4, (SAMPLES, LENGTH + 1))
    ids = (step.cumsum(axis=1) + random.integers(0, VOCABULARY,
                                                 (SAMPLES, 1))) % VOCABULARY
    return {"input_ids": ids[:, :-1], "labels": ids[:, 1:]}


def sentences(random):
    """Tokens, padded with zeros, a mask of those that count, and a class."""
    ids = tokens(random, low=1)
    length = random.integers(3, LENGTH + 1, (SAMPLES, 1))
    mask = numpy.arange(LENGTH) < length
    return {"input_ids": ids * mask, "mask": mask,
            "labels": (ids[:, 0] + length[:, 0]) % 5}


def pictures(random):
    return {"pixels": floats(random, 3, 16, 16),
            "labels": random.integers(0, 7, SAMPLES)}


def vectors(random, width=10, results=4):
    x = floats(random, width)
    return {"x": x, "labels": numpy.tanh(x[:, :results] * x[:, -results:])}
