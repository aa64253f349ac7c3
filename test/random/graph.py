# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A random graph: nodes, the values that they read, and what they should give."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

import reference
import values


class Graph:
    """Nodes in order. `feeds` and `constants` are arrays by name: inputs and
    initializers. All names begin with `prefix`."""

    def __init__(self, prefix, opset):
        self.prefix = prefix
        self.opset = opset
        self.nodes, self.feeds, self.constants = [], {}, {}
        self.values = {}  # every array, as the reference computes it
        self.outputs = []

    def leaves(self):
        return self.feeds | self.constants

    def made_by(self):
        return {name: node for node in self.nodes for name in node.outputs}

    def reduced(self, nodes, outputs):
        """The same with some of its nodes only: what the others made of what
        these read becomes an input."""
        result = Graph(self.prefix, self.opset)
        result.nodes = nodes
        result.outputs = outputs
        result.values = self.values
        made = result.made_by()
        for node in nodes:
            for name in node.inputs:
                if not name or name in made:
                    continue
                if name in self.constants:
                    result.constants[name] = self.constants[name]
                else:
                    result.feeds[name] = self.values[name]
        return result

    def described(self):
        """One line a node, with the types of its operands."""
        lines = []
        for node in self.nodes:
            operands = [self.operand(name) for name in node.inputs]
            words = [f"{k}={v}" for k, v in node.attributes.items()]
            lines.append(f"{node.op}({', '.join(operands + words)}) -> " +
                         ", ".join(self.operand(n) for n in node.outputs))
        return lines

    def operand(self, name):
        if not name:
            return "-"
        array = self.values[name]
        kind = "constant " if name in self.constants else ""
        text = f"{name}: {kind}{array.dtype}{list(array.shape)}"
        known = name in self.constants and array.size <= 8
        return text + (f" = {array.tolist()}" if known else "")


def model(graphs):
    """One model of several graphs."""
    inputs = [helper.make_tensor_value_info(
        name, reference.element_type(array.dtype), array.shape)
        for g in graphs for name, array in g.feeds.items()]
    outputs = [helper.make_tensor_value_info(
        name, reference.element_type(g.values[name].dtype),
        g.values[name].shape) for g in graphs for name in g.outputs]
    constants = [numpy_helper.from_array(array, name)
                 for g in graphs for name, array in g.constants.items()]
    nodes = [node.proto() for g in graphs for node in g.nodes]
    whole = helper.make_graph(nodes, "random", inputs, outputs, constants)
    return helper.make_model(whole, ir_version=10, opset_imports=[
        helper.make_opsetid("", graphs[0].opset)])


class Builder:
    """Makes one graph, node by node; an op of ops.py asks it for operands."""

    def __init__(self, rng, kind, prefix, opset, shapes_as_inputs=False):
        self.rng = rng
        self.kind = kind
        self.graph = Graph(prefix, opset)
        self.opset = opset
        self.shapes_as_inputs = shapes_as_inputs
        self.special = kind.special and rng.random() < 0.35
        self.empty = kind.empty and rng.random() < 0.5
        self.count = 0
        self.pending = []

    # ---- Choices

    def chance(self, probability):
        return self.rng.random() < probability

    def choice(self, items):
        return items[int(self.rng.integers(len(items)))]

    def integer(self, low, high):
        """From low to high, both among them."""
        return int(self.rng.integers(low, high + 1))

    def number(self, *some):
        return float(self.choice(some))

    # ---- Values

    def name(self, letter):
        self.count += 1
        return f"{self.graph.prefix}{letter}{self.count}"

    def array(self, name):
        return self.graph.values[name]

    def shape(self, name):
        return self.graph.values[name].shape

    def rank(self, name):
        return self.graph.values[name].ndim

    def dtype(self, name):
        return self.graph.values[name].dtype

    def leaf(self, array, constant=None):
        """A new input, or initializer."""
        if constant is None:
            constant = self.chance(0.25)
        name = self.name("c" if constant else "x")
        array = np.asarray(array)
        self.graph.values[name] = array
        (self.graph.constants if constant else self.graph.feeds)[name] = array
        return name

    def known(self, *numbers, dtype=np.int64, scalar=False):
        """Integers that shape the program."""
        array = np.array(numbers[0] if scalar else numbers, dtype)
        return self.leaf(array, constant=not self.shapes_as_inputs or
                         self.chance(0.5))

    def fresh(self, dtype, sizes):
        if self.kind.gradients and dtype == values.FLOAT:
            array = values.distinct(self.rng, sizes)
        else:
            array = values.array(self.rng, dtype, sizes, self.special)
        return self.leaf(array)

    def old(self, accept, probability=0.7):
        """A value of the graph, the newest rather than others, or nothing."""
        if not self.chance(probability):
            return None
        fits = [name for name in self.graph.values if accept(self.array(name))]
        if not fits:
            return None
        return fits[-1] if self.chance(0.5) else self.choice(fits)

    def float_type(self):
        fits = [d for d in self.kind.dtypes if values.is_float(d)]
        return self.choice(fits)

    def int_type(self):
        fits = [d for d in self.kind.dtypes
                if not values.is_float(d) and d != values.BOOL]
        return self.choice(fits)

    def tensor(self, dtypes=None, rank=None, low=0, high=5):
        """A value of one of some dtypes, of a rank between two."""
        low, high = (low, high) if rank is None else (rank, rank)
        kinds = self.kind.dtypes if dtypes is None else dtypes
        found = self.old(lambda a: a.dtype in kinds and low <= a.ndim <= high)
        if found:
            return found
        ranks = [r for r in (0, 1, 1, 2, 2, 2, 3, 3, 4, 5) if low <= r <= high]
        sizes = values.shape(self.rng, self.choice(ranks or [low]), self.empty)
        return self.fresh(self.choice(kinds), sizes)

    def floats(self, **more):
        kinds = [d for d in self.kind.dtypes if values.is_float(d)]
        return self.tensor(kinds, **more)

    def numbers(self, **more):
        kinds = [d for d in self.kind.dtypes if d != values.BOOL]
        return self.tensor(kinds, **more)

    def like(self, dtype, sizes):
        """A value of this dtype and shape."""
        found = self.old(lambda a: a.dtype == dtype and a.shape == tuple(sizes),
                         0.4)
        return found or self.fresh(dtype, sizes)

    def mate(self, name, dtype=None):
        """A value that broadcasts with another."""
        dtype = dtype or self.dtype(name)
        sizes = self.shape(name)

        def fits(array):
            try:
                return (array.dtype == dtype and values.LARGEST * 4 >= np.prod(
                    np.broadcast_shapes(array.shape, sizes)))
            except ValueError:
                return False
        found = self.old(fits, 0.4)
        return found or self.fresh(dtype, values.mate(self.rng, sizes))

    def axis(self, name, extra=0):
        """An axis of a value, from the front or from the end."""
        rank = self.rank(name) + extra
        return self.integer(-rank, rank - 1)

    def indices(self, limit, sizes, dtype=None):
        """Indices into an axis of some size, some of them from its end."""
        dtype = dtype or self.choice([np.int64, np.int64, np.int32])
        low = -limit if self.chance(0.4) else 0
        return self.leaf(self.rng.integers(low, limit, sizes).astype(dtype))

    # ---- Nodes

    def add(self, op, inputs, outputs=1, **attributes):
        """A node and its outputs' names."""
        made = [self.name("v") for _ in range(outputs)]
        attributes = {k: v for k, v in attributes.items() if v is not None}
        node = reference.Node(op, inputs, made, attributes, self.opset)
        arrays = {n: self.array(n) for n in inputs if n}
        # A kernel has it in f32 where another of its ops goes on with it
        # (docs/kernels.md).
        makers = self.graph.made_by()
        if any(makers[n].overflowed for n in arrays if n in makers):
            raise reference.Refused(op)
        results = node.evaluate(arrays)
        if any(a.dtype == object or a.size > 20 * values.LARGEST
               for a in results):
            raise reference.Refused(op)
        if not self.kind.empty and any(a.size == 0 for a in results):
            raise reference.Refused(op)
        if self.kind.gradients and not all(
                np.isfinite(a).all() for a in results):
            raise reference.Refused(op)
        self.graph.nodes.append(node)
        self.graph.values.update(zip(made, results))
        return made

    def attempt(self, op):
        """Applies an op; whatever it has made is forgotten if there is none."""
        graph = self.graph
        before = (len(graph.nodes), set(graph.values))
        try:
            op(self)
            return True
        except (reference.Refused, ValueError, IndexError):
            pass
        del graph.nodes[before[0]:]
        for table in (graph.values, graph.feeds, graph.constants):
            for name in set(table) - before[1]:
                del table[name]
        return False

    def finish(self):
        """Chooses the outputs: what nothing reads, and some others."""
        graph = self.graph
        read = {name for node in graph.nodes for name in node.inputs}
        made = [name for node in graph.nodes for name in node.outputs]
        graph.outputs = [name for name in made
                         if name not in read or self.chance(0.2)]
        for table in (graph.feeds, graph.constants):
            for name in set(table) - read:
                del table[name]
        if self.kind.gradients:
            self.weigh()
        return graph

    def weigh(self):
        """Multiplies each float output by weights that differ."""
        for name in list(self.graph.outputs):
            if self.dtype(name) == values.FLOAT:
                weights = self.rng.uniform(-1, 1, self.shape(name))
                made = self.add("Mul", [name, self.leaf(
                    weights.astype(np.float32), constant=False)])
                self.graph.outputs.remove(name)
                self.graph.outputs += made
