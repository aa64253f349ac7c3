# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Models that choose between branches: branches.py OUT KIND.

import sys

from onnxfile import *

X, Y = [value("x", [2, 4])], [value("y", [2, 4])]


def branch(op, name="b", initializers=[]):
    return graph([node(op, ["x"], [name], op.lower())], [], [value(name, [2, 4])], initializers)


def choose(condition, output, taken, other):
    return node("If", [condition], [output], "choose", then_branch=taken, else_branch=other)


def truth(name, is_true):
    return tensor(name, [], BOOL, raw=b"\1" if is_true else b"\0")


inner = graph([choose("no", "c", branch("Sin", "s"), branch("Cos", "k"))], [], [value("c", [2, 4])])
kinds = {
    "constant": graph([node("Constant", [], ["c"], value=truth("", True)),
                       choose("c", "y", branch("Relu"), branch("Tanh"))], X, Y),
    "initializer": graph([choose("no", "y", branch("Relu"), branch("Tanh"))], X, Y, [truth("no", False)]),
    "nested": graph([choose("yes", "y", inner, branch("Tanh"))], X, Y, [truth("yes", True), truth("no", False)]),
    # An input may be given another value than its initializer's.
    "input": graph([choose("no", "y", branch("Relu"), branch("Tanh"))],
                   X + [value("no", [], BOOL)], Y, [truth("no", False)]),
    "weights": graph([choose("yes", "y", branch("Relu", "b", [tensor("w", [2], raw=floats(2))]), branch("Tanh"))],
                     X, Y, [truth("yes", True)]),
    "names": graph([choose("yes", "a", branch("Relu"), branch("Tanh")), choose("yes", "z", branch("Relu"), branch("Tanh")),
                    node("Add", ["a", "z"], ["y"], "add")], X, Y, [truth("yes", True)]),
}


def by_size(data, output, taken, other, prefix=""):
    """Whether axis 0 of `data` is 2."""
    p = prefix
    return [node("Shape", [data], [p + "shape"]), node("Gather", [p + "shape", "first"], [p + "size"]),
            node("Equal", [p + "size", "two"], [p + "is"]), choose(p + "is", output, taken, other)]


def whole(name, dims, number):
    return tensor(name, dims, INT64, raw=number.to_bytes(8, "little"))


dynamic = [value("x", ["N", 4])], [value("y", ["N", 4])]
# The second condition reads what the first If gives; its branch has an index.
sliced = graph([node("Slice", ["a", "axis", "end", "axis"], ["s"], "slice")], [], [value("s", ["N", 4])],
               [whole("axis", [1], 0), whole("end", [1], 9)])
kinds["shape"] = graph(by_size("x", "a", branch("Relu"), branch("Tanh")) +
                       by_size("a", "y", branch("Cos"), sliced, "second_"), *dynamic,
                       [whole("first", [], 0), whole("two", [], 2)])
# Which element is the largest is no matter of shapes.
kinds["value"] = graph([node("ReduceMax", ["x"], ["m"], keepdims=0), node("ReduceMin", ["x"], ["k"], keepdims=0), node("Greater", ["m", "k"], ["is"]),
                        choose("is", "y", branch("Relu"), branch("Tanh"))], *dynamic)
# Training changes what the weight sums up to.
kinds["trained"] = graph([node("ReduceSum", ["w"], ["m"], keepdims=0), node("Greater", ["m", "none"], ["is"]),
                          node("Mul", ["x", "w"], ["z"]), choose("is", "y", branch("Relu"), branch("Tanh"))],
                         dynamic[0], dynamic[1] + [value("z", ["N", 4])],
                         [tensor("w", [4], raw=floats(4)), tensor("none", [], raw=floats(1))])
# A function that chooses by its attribute, as onnxscript writes one.
chooser = function("Choose", "local", ["x"], ["y"], [
    node("Constant", [], ["k"], refers={"value_int": ("flag", 2)}),
    node("Cast", ["k"], ["c"], to=BOOL),
    choose("c", "y", branch("Relu"), branch("Tanh"))])
kinds["attribute"] = graph([node("Choose", ["x"], ["t"], domain="local", flag=1),
                            node("Choose", ["t"], ["y"], domain="local", flag=0)], X, Y)
write(model(kinds[sys.argv[2]], functions=[chooser], domains=["local"]))
