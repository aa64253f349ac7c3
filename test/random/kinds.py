# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kinds of graphs, and how one of each is drawn."""

import numpy as np

import graph
import layout_ops  # registers
import model_ops  # registers
import old_ops  # registers
import ops
import values

OPSETS = [7, 8, 9, 10, 11, 12, 13, 15, 17,
          18, 19, 20, 21, 22, 22, 23, 23, 23, 23, 23, 24, 25]


class Kind:
    def __init__(self, name, dtypes, where, special=False, empty=False,
                 gradients=False):
        self.name = name
        self.dtypes = dtypes
        self.where = where
        self.special = special
        self.empty = empty
        self.gradients = gradients


KINDS = {kind.name: kind for kind in (
    # What a program computes.
    Kind("compiled", values.COMPILED, ("all", "forward"), special=True),
    # What the interpreter computes, other types and sizes of 0 among it.
    Kind("folded", values.FOLDED, ("all", "forward", "folded"), special=True,
         empty=True),
    # Gradients.
    Kind("gradients", [values.FLOAT], ("all",), gradients=True),
    # Gradients where a size may be 0.
    Kind("empty", [values.FLOAT], ("all",), empty=True, gradients=True),
)}


def draw(rng, kind, prefix, opset, shapes_as_inputs=False):
    """One graph of some nodes."""
    builder = graph.Builder(rng, kind, prefix, opset, shapes_as_inputs)
    fits = [(function, weight) for function, first, where, weight, last
            in ops.OPS.values()
            if where in kind.where and ops.in_opset(first, last, opset)]
    weights = np.array([weight for _, weight in fits])
    weights /= weights.sum()
    wanted = builder.integer(1, 7)
    for _ in range(40):
        if len(builder.graph.nodes) >= wanted:
            break
        builder.attempt(fits[rng.choice(len(fits), p=weights)][0])
    return builder.finish() if builder.graph.nodes else None
