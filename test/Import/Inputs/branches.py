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
    "weights": graph([choose("yes", "y", branch("Relu", "b", [tensor("w", [1], raw=floats(1))]), branch("Tanh"))],
                     X, Y, [truth("yes", True)]),
    "names": graph([choose("yes", "a", branch("Relu"), branch("Tanh")), choose("yes", "z", branch("Relu"), branch("Tanh")),
                    node("Add", ["a", "z"], ["y"], "add")], X, Y, [truth("yes", True)]),
}
# A function that chooses by its attribute, as onnxscript writes one.
chooser = function("Choose", "local", ["x"], ["y"], [
    node("Constant", [], ["k"], refers={"value_int": ("flag", 2)}),
    node("Cast", ["k"], ["c"], to=BOOL),
    choose("c", "y", branch("Relu"), branch("Tanh"))])
kinds["attribute"] = graph([node("Choose", ["x"], ["t"], domain="local", flag=1),
                            node("Choose", ["t"], ["y"], domain="local", flag=0)], X, Y)
write(model(kinds[sys.argv[2]], functions=[chooser], domains=["local"]))
