# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which graph of a pack is at fault, and the least of it that still is."""

import os

import numpy as np

import backend
import graph
import judge

try:
    import torch_gradients as gradients
except ImportError:
    gradients = None

TRIES = 40  # runs that make one fault small


class Fault:
    def __init__(self, trial, found, kind, said):
        self.trial = trial
        self.graph = found
        self.kind = kind
        self.said = said

    def text(self):
        options = "".join(f" {word}" for word in self.trial.words())
        return "\n  ".join([f"{self.kind}{options}: {self.said}",
                            *self.graph.described()])

    def write(self, folder, name):
        """The model and its inputs, and how to run them."""
        folder = os.path.join(folder, f"{name}-{self.graph.prefix.strip('_')}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "model.onnx"), "wb") as file:
            file.write(graph.model([self.graph]).SerializeToString())
        words = ["shardonnx", "eval", "model.onnx", "--output-dir", "out",
                 *self.trial.words()]
        for each, array in self.graph.feeds.items():
            backend.save(os.path.join(folder, each + ".npy"), array)
            words.append(f"--input {each}={each}.npy")
        with open(os.path.join(folder, "command"), "w") as file:
            file.write(" ".join(words) + "\n# " +
                       self.text().replace("\n", "\n# ") + "\n")
        return folder


class Trial:
    """Runs graphs of a kind, and says what is wrong."""

    def __init__(self, kind, compiler, strict):
        self.kind = kind
        self.compiler = compiler
        self.strict = strict

    def words(self):
        return (["--grad"] if self.kind.gradients else []) + (
            ["--strict-numerics"] if self.strict else [])

    def evaluate(self, graphs):
        feeds = {k: v for g in graphs for k, v in g.feeds.items()}
        return backend.evaluate(graph.model(graphs), feeds, self.compiler,
                                self.kind.gradients,
                                more=["--strict-numerics"] * self.strict)

    def run(self, graphs):
        """The result, or a kind of fault and what was said."""
        try:
            result = self.evaluate(graphs)
        except (backend.Refused, backend.Crashed, backend.Hung) as error:
            return None, (type(error).__name__.lower(), str(error))
        if self.kind.name == "compiled" and result.compiled == 0 and \
                any(g.feeds for g in graphs):
            return None, ("folded", self.why_folded(graphs))
        return result, None

    def why_folded(self, graphs):
        """What --grad says, which does not try to compute all beforehand."""
        feeds = {k: v for g in graphs for k, v in g.feeds.items()}
        try:
            backend.evaluate(graph.model(graphs), feeds, self.compiler, True)
        except (backend.Refused, backend.Crashed, backend.Hung) as error:
            return str(error)
        return "it is compiled with --grad"

    def compare(self, each, result):
        """The kind of fault and what is wrong with a graph's results."""
        expected = judge.Expected(each)
        for name in each.outputs:
            if said := expected.difference(name, result.outputs[name]):
                return "wrong", said
        if self.kind.gradients and gradients:
            if said := gradients.difference(each, result):
                return "gradient", said
        return None

    def alone(self, each):
        result, said = self.run([each])
        return said or self.compare(each, result)


def find(trial, graphs):
    """Pairs of a graph and its kind of fault and message."""
    if not graphs:
        return []
    result, said = trial.run(graphs)
    if not said:
        # Alone once more: the program that has gradients of constants is
        # made for all graphs of a pack or for none.
        return [(g, found) for g in graphs
                if trial.compare(g, result) and (found := trial.alone(g))]
    if len(graphs) == 1:
        return [(graphs[0], said)]
    half = len(graphs) // 2
    found = find(trial, graphs[:half]) + find(trial, graphs[half:])
    return found or [(joined(graphs), said)]


def joined(graphs):
    """What only fails together."""
    result = graph.Graph(graphs[0].prefix, graphs[0].opset)
    for each in graphs:
        result.nodes += each.nodes
        result.outputs += each.outputs
        for mine, other in ((result.feeds, each.feeds),
                            (result.constants, each.constants),
                            (result.values, each.values)):
            mine.update(other)
    return result


def shrink(trial, found, said):
    """Leaves out nodes as long as the fault stays of its kind."""
    kind, message = said
    tries = 0
    nodes = list(found.nodes)
    while len(nodes) > 1 and tries < TRIES:
        for smaller in halves(nodes):
            tries += 1
            outputs = outputs_of(found, smaller)
            candidate = found.reduced(smaller, outputs)
            end = trial.alone(candidate)
            if end and end[0] == kind:
                nodes, found, message = smaller, candidate, end[1]
                break
            if tries >= TRIES:
                break
        else:
            break
    return Fault(trial, found, kind, message)


def halves(nodes):
    """Lists with fewer nodes: halves, then all but one."""
    if len(nodes) > 2:
        half = len(nodes) // 2
        yield nodes[:half]
        yield nodes[half:]
    for i in range(len(nodes)):
        yield nodes[:i] + nodes[i + 1:]


def outputs_of(found, nodes):
    """What nothing reads any more, and the outputs that there were."""
    read = {name for node in nodes for name in node.inputs}
    return [name for node in nodes for name in node.outputs
            if name not in read or name in found.outputs]
