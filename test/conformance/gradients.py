#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares gradients of `shardonnx eval --grad` with central differences in f64.

    gradients.py [--shardonnx build/bin/shardonnx] [--jobs N] [--filter REGEX]
                 [--report FILE.json] [--verbose]

Each case of gradient_cases.py is one node whose float outputs are multiplied by
weights that differ, so that no gradient is uniform. Differences are taken by
ONNX's reference evaluator in f64. Many cases share a graph, and so one process;
the cases of a graph that does not give an answer run alone.
"""

import argparse
import concurrent.futures
import json
import math
import os
import re
import sys
import time

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_grid_sample

import backend
import gradient_cases

OPSET = 23
GROUP = 24  # cases of a graph
STEP = 1e-5
RELATIVE, ABSOLUTE = 1e-3, 1e-5  # absolute: of the largest, or of 1


class Softsign(OpRun):
    """The reference's own refuses scalars."""

    def _run(self, x):
        return (np.asarray(x / (1 + np.abs(x))),)


class Erf(OpRun):
    """The reference's own computes in f32; so for the three below."""

    def _run(self, x):
        return (error_function(x),)


class Gelu(OpRun):
    def _run(self, x, approximate="none"):
        if approximate == "tanh":
            inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)
            return (np.asarray(x / 2 * (1 + np.tanh(inner))),)
        return (np.asarray(x / 2 * (1 + error_function(x / np.sqrt(2)))),)


class MeanVarianceNormalization(OpRun):
    def _run(self, x, axes=None):
        axes = tuple(axes or (0, 2, 3))
        deviation = np.sqrt((x ** 2).mean(axes, keepdims=True) -
                            x.mean(axes, keepdims=True) ** 2)
        return ((x - x.mean(axes, keepdims=True)) / (deviation + 1e-9),)


class GroupNormalization(OpRun):
    def _run(self, x, scale, bias, epsilon=1e-5, num_groups=None,
             stash_type=1):
        groups = x.reshape(x.shape[0], num_groups, -1)
        means = groups.mean(-1, keepdims=True)
        spread = np.sqrt(groups.var(-1, keepdims=True) + epsilon)
        channels = (1, -1) + (1,) * (x.ndim - 2)
        return (((groups - means) / spread).reshape(x.shape) *
                scale.reshape(channels) + bias.reshape(channels),)


class GridSample(op_grid_sample.GridSample):
    """The reference's own has positions in f32."""

    def _gs_denormalize_coordinates(self, n, dims, align_corners):
        return np.array([self._gs_denormalize(at, size, align_corners)
                         for at, size in zip(n, dims)])


class LpNormalization(OpRun):
    """The reference's own sums x, not |x|, where p is 1."""

    def _run(self, x, axis=-1, p=2):
        sums = (np.abs(x) ** p).sum(axis, keepdims=True)
        return (x / sums ** (1 / p),)


def error_function(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


OWN_OPS = [Softsign, Erf, Gelu, MeanVarianceNormalization,
           GroupNormalization, GridSample, LpNormalization]


class Problem:
    """A case as a graph: its names begin with `prefix`."""

    def __init__(self, case, prefix):
        self.case = case
        self.prefix = prefix
        self.nodes, self.inputs, self.constants = [], {}, {}
        names = []
        for i, array in enumerate(case.inputs):
            name = f"{prefix}x{i}"
            if array is None:
                name = ""
            elif array.dtype == np.float64:
                self.inputs[name] = array
            else:
                self.constants[name] = array
            names.append(name)
        self.made = [f"{prefix}y{i}" for i in range(case.outputs)]
        self.nodes.append(helper.make_node(case.op, names, self.made,
                                           f"{prefix}node", **case.attributes))
        self.results = self.weigh()

    def weigh(self):
        """Multiplies each output that counts by weights; the products' shapes."""
        values = self.evaluator(self.made).run(None, self.inputs)
        results = {}
        for i in self.case.kept:
            random = np.random.RandomState(11 + i)
            weights = random.uniform(-1, 1, values[i].shape)
            self.inputs[f"{self.prefix}w{i}"] = weights.astype(
                np.float32).astype(np.float64)
            product = f"{self.prefix}z{i}"
            results[product] = values[i].shape
            self.nodes.append(helper.make_node(
                "Mul", [self.made[i], f"{self.prefix}w{i}"], [product]))
        return results

    def evaluator(self, outputs):
        shapes = {name: None for name in outputs}
        return ReferenceEvaluator(model([self], TensorProto.DOUBLE, shapes),
                                  new_ops=OWN_OPS)

    def reference(self):
        """The weighted outputs, and the gradient of their sum for each input."""
        evaluator = self.evaluator(list(self.results))

        def total(inputs):
            return sum(z.sum() for z in evaluator.run(None, inputs))

        values = dict(zip(self.results, evaluator.run(None, self.inputs)))
        if any(value.dtype != np.float64 for value in values.values()):
            raise TypeError("the reference does not compute in f64")
        gradients = {}
        for name, array in self.inputs.items():
            gradient = np.zeros(array.shape)
            for place in np.ndindex(array.shape):
                ends = []
                for step in (STEP, -STEP):
                    moved = array.copy()
                    moved[place] += step
                    ends.append(total(self.inputs | {name: moved}))
                gradient[place] = (ends[0] - ends[1]) / (2 * STEP)
            gradients[name] = gradient
        return values, gradients


def model(problems, element, outputs):
    """One model of several problems; `outputs` are shapes by name."""
    nodes = [node for p in problems for node in p.nodes]
    inputs = [helper.make_tensor_value_info(name, element, array.shape)
              for p in problems for name, array in p.inputs.items()]
    made = [helper.make_tensor_value_info(name, element, shape)
            for name, shape in outputs.items()]
    constants = [numpy_helper.from_array(array, name)
                 for p in problems for name, array in p.constants.items()]
    graph = helper.make_graph(nodes, "gradients", inputs, made, constants)
    return helper.make_model(graph, ir_version=10,
                             opset_imports=[helper.make_opsetid("", OPSET)])


def evaluate(problems, options):
    """What Shardonnx makes of the problems."""
    outputs = {name: shape for p in problems
               for name, shape in p.results.items()}
    graph = model(problems, TensorProto.FLOAT, outputs)
    inputs = {name: array.astype(np.float32)
              for p in problems for name, array in p.inputs.items()}
    return backend.evaluate(graph, inputs, options.shardonnx, grad=True)


def difference(name, got, expected):
    """What is wrong with an array, or nothing."""
    if got.shape != expected.shape:
        return f"{name} has shape {got.shape}, not {expected.shape}"
    if got.size == 0:
        return ""
    scale = max(1.0, float(np.abs(expected).max()))
    off = np.abs(got - expected) - RELATIVE * np.abs(expected)
    if np.all(off <= ABSOLUTE * scale):  # not so for NaN
        return ""
    place = np.unravel_index(np.nanargmax(off), off.shape)
    return (f"{name}{list(map(int, place))} is {got[place]:.7g}, "
            f"not {expected[place]:.7g}")


def compare(problem, result):
    values, gradients = problem.reference()
    for name, expected in values.items():
        if said := difference(name, result.outputs[name], expected):
            return said
    for name, expected in gradients.items():
        if name not in result.gradients:
            return f"there is no gradient of {name}"
        if said := difference("the gradient of " + name,
                              result.gradients[name], expected):
            return said
    return ""


def run_group(problems, options):
    """Pairs of a case's name and what is wrong with it."""
    try:
        result = evaluate(problems, options)
    except (backend.Refused, backend.Crashed, backend.Hung) as error:
        if len(problems) > 1:
            half = len(problems) // 2
            return (run_group(problems[:half], options) +
                    run_group(problems[half:], options))
        return [(problems[0].case.name,
                 f"{type(error).__name__.lower()}: {error}")]
    return [(p.case.name, compare(p, result)) for p in problems]


def run(cases, options):
    """All cases, in groups that hold no two neighbours. Those of no elements
    are by themselves: a graph is either compiled or not."""
    groups = []
    for empty in (False, True):
        some = [case for case in cases if case.empty == empty]
        count = -(-len(some) // GROUP)
        groups += [some[i::count] for i in range(count)]
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        ends = pool.map(run_cases, groups, [options] * len(groups))
        return [end for group in ends for end in group]


def run_cases(cases, options):
    return run_group([Problem(case, f"c{i}_") for i, case in enumerate(cases)],
                     options)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shardonnx", default=backend.DEFAULT_COMPILER)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--filter", default="", help="regex over case names")
    parser.add_argument("--report", help="write the counts here")
    parser.add_argument("--verbose", action="store_true",
                        help="print every case")
    return parser.parse_args()


def main():
    options = parse_options()
    start = time.time()
    cases = [case for case in gradient_cases.all_cases()
             if re.search(options.filter, case.name)]
    ends = sorted(run(cases, options))
    bad = [end for end in ends if end[1]]
    for name, said in ends:
        if said or options.verbose:
            print(f"FAIL {name}: {said}" if said else f"ok   {name}")
    passed = len(ends) - len(bad)
    print(f"{passed} gradients right, {len(bad)} not, "
          f"in {time.time() - start:.0f} s")
    if options.report:
        with open(options.report, "w") as file:
            json.dump({"passed": passed, "failed": len(bad)}, file)
    return 1 if bad or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
