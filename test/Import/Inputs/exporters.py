# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What other exporters than PyTorch's write: exporters.py FILE KIND.

import sys

from onnxfile import *


def array(name, dims, items):
    return tensor(name, dims, floats=items)


def net(nodes, initializers, inputs=[value("x", [2, 4])], last="h"):
    """What comes out of `nodes` goes through one more product."""
    return graph(nodes + [node("MatMul", [last, "w"], ["y"], "end")],
                 inputs, [value("y", [2, 3])],
                 [array("w", [4, 3], [0.5 - i / 8 for i in range(12)])] + initializers)


four = [0.5, 1.5, 2.5, 3.5]
eps = array("eps", [], [1e-5])
kinds = {
    # Keras on TensorFlow, on JAX, and as it stands in the paper.
    "tensorflow": net([node("Add", ["var", "eps"], ["v"]), node("Sqrt", ["v"], ["s"]), node("Reciprocal", ["s"], ["r"]),
                       node("Mul", ["r", "gamma"], ["scale"]), node("Mul", ["mean", "scale"], ["m"]),
                       node("Sub", ["beta", "m"], ["offset"]), node("Mul", ["x", "scale"], ["t"]),
                       node("Add", ["t", "offset"], ["h"])],
                      [array(name, [4], four) for name in ("mean", "var", "gamma", "beta")] + [eps]),
    "jax": net([node("Reshape", ["var", "row"], ["var1"]), node("Add", ["var1", "eps"], ["v"]), node("Sqrt", ["v"], ["s"]),
                node("Div", ["gamma", "s"], ["scale"]), node("Neg", ["mean"], ["n"]), node("Mul", ["n", "scale"], ["m"]),
                node("Add", ["m", "beta"], ["offset"]), node("Mul", ["x", "scale"], ["t"]), node("Add", ["t", "offset"], ["h"])],
               [array(name, [4], four) for name in ("mean", "var", "gamma", "beta")] + [eps, int64s("row", [1, 4])]),
    "paper": net([node("Sub", ["x", "mean"], ["d"]), node("Add", ["var", "eps"], ["v"]), node("Sqrt", ["v"], ["s"]),
                  node("Div", ["d", "s"], ["n"]), node("Mul", ["n", "gamma"], ["t"]), node("Add", ["t", "beta"], ["h"])],
                 [array(name, [4], four) for name in ("mean", "var", "gamma", "beta")] + [eps]),
    # Masks of ones, of numbers that hide, and what OneHot writes.
    "masks": net([node("OneHot", ["ids", "depth", "pair"], ["hot"], axis=-1), node("MatMul", ["hot", "tri"], ["t"]),
                  node("Add", ["t", "hides"], ["h"])],
                 [array("tri", [4, 4], [1.0 * (i // 4 >= i % 4) for i in range(16)]),
                  array("hides", [2, 4], [0, -1e9, 0, 0, 0, 0, -1e9, -1e9]), array("pair", [2], [0, 1]),
                  int64s("depth", [4])], [value("ids", [2], INT64)]),
    # A table and the transposed copy of it that an exporter has folded; one that
    # is its own transpose.
    "tied": graph([node("Gather", ["table", "ids"], ["e"], "embedding"), node("MatMul", ["e", "square"], ["h"]),
                   node("Gather", ["square", "ids"], ["q"]), node("Slice", ["q", "from", "to", "axis"], ["p"]),
                   node("Add", ["h", "p"], ["s"]), node("MatMul", ["s", "copy"], ["y"], "head")],
                  [value("ids", [2], INT64)], [value("y", [2, 3])],
                  [array("table", [3, 2], [1, 2, 3, 4, 5, 6]), array("copy", [2, 3], [1, 3, 5, 2, 4, 6]),
                   array("square", [2, 2], [2, 7, 7, 2]), int64s("from", [0]), int64s("to", [2]), int64s("axis", [1])]),
    "constants": net([node("Constant", [], ["k"], value=array("", [4, 4], [i / 16 for i in range(16)])),
                      node("MatMul", ["x", "k"], ["h"])], []),
    # One weight of two layers, or two that begin alike.
    "equal": net([node("MatMul", ["x", "one"], ["t"]), node("MatMul", ["t", "two"], ["h"])],
                 [array(name, [4, 4], [i / 16 for i in range(16)]) for name in ("one", "two")]),
    "single": graph([node("MatMul", ["x", "w"], ["p"], "product"), node("Add", ["p", "b"], ["y"], "bias")],
                    [value("x", [2, 4])], [value("y", [2, 1])], [array("w", [4, 1], four), array("b", [1], [0.5])]),
}


def recurrent(op, gates, *activations):
    """The gates' biases start with ones and zeros, the activations are named."""
    more = dict(activations=list(activations)) if activations else {}
    return graph([node(op, ["x", "w", "r", "b"], ["", "last"], "cell", hidden_size=1, direction="bidirectional", **more),
                  node("Transpose", ["last"], ["turned"], perm=[1, 0, 2]), node("Reshape", ["turned", "rows"], ["y"])],
                 [value("x", [2, 2, 1])], [value("y", [2, 2])],
                 [array("w", [2, gates, 1], [0.5] * (2 * gates)),
                  array("r", [2, gates, 1], [0.25] * (2 * gates)),
                  array("b", [2, 2 * gates], ([0.0] * (2 * gates - 1) + [1.0]) * 2), int64s("rows", [2, 2])])


kinds["lstm"] = recurrent("LSTM", 4, *["Sigmoid", "Tanh", "Tanh"] * 2)
kinds["gru"] = recurrent("GRU", 3, *["Sigmoid", "Tanh"] * 2)
kinds["relu"] = recurrent("RNN", 1, "Relu", "Relu")
path, kind = sys.argv[1:]
write(model(kinds[kind], producer="" if kind == "relu" else "tool"), path)
