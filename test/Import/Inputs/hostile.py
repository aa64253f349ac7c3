# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Models made to break a compiler: hostile.py OUT KIND.

from onnxfile import *

X, Y = [value("x", [2, 4])], [value("y", [2, 4])]
BIG = 1 << 40


def simple(nodes, initializers=[], outputs=Y, **kind):
    return model(graph(nodes, X, outputs, initializers), **kind)


def call(name, a, b):
    return node(name, [a], [b], name, "local")


def local(name, nodes):
    return function(name, "local", ["a"], ["b"], nodes)


def doubling(depth):
    """Functions that call the one before twice."""
    out = [local("f0", [node("Relu", ["a"], ["b"])])]
    for i in range(1, depth):
        out.append(local("f%d" % i, [call("f%d" % (i - 1), "a", "m"), call("f%d" % (i - 1), "m", "b")]))
    return out


def constant_of(op, sizes, **attributes):
    """x times the largest element of what `op` makes of constants."""
    names = ["c%d" % i for i in range(len(sizes))]
    nodes = [node(op, names, ["huge"], "huge", **attributes), node("Cast", ["huge"], ["floats"], to=1),
             node("ReduceMax", ["floats"], ["one"], keepdims=0), node("Mul", ["x", "one"], ["y"], "mul")]
    return simple(nodes, [int64s(n, s) if isinstance(s, list) else s for n, s in zip(names, sizes)])


def scalar(name, number):
    return tensor(name, [], INT64, raw=struct.pack("<q", number))


def nested(depth):
    inner = leaf = graph([node("Relu", ["x"], ["b"])], [], [value("b", [2, 4])])
    for _ in range(depth):
        inner = graph([node("If", ["c"], ["b"], "if", then_branch=inner, else_branch=leaf)], [], [value("b", [2, 4])])
    return inner


kinds = {
    "cycle": lambda: simple([node("Add", ["x", "b"], ["a"], "one"), node("Add", ["a", "x"], ["b"], "two"),
                             node("Add", ["a", "b"], ["y"], "three")]),
    "itself": lambda: simple([node("Add", ["x", "y"], ["y"], "one")]),
    "same_output": lambda: simple([node("Relu", ["x"], ["y"], "one"), node("Sigmoid", ["x"], ["y"], "two")]),
    "input_again": lambda: simple([node("Relu", ["x"], ["x"], "one"), node("Relu", ["x"], ["y"], "two")]),
    "recursion": lambda: simple([call("f", "x", "y")], functions=[local("f", [call("f", "a", "b")])],
                                domains=["local"]),
    "mutual": lambda: simple([call("f", "x", "y")], functions=[local("f", [call("g", "a", "b")]),
                                                               local("g", [call("f", "a", "b")])], domains=["local"]),
    "chain": lambda: simple([call("f999", "x", "y")], domains=["local"],
                            functions=[local("f%d" % i, [call("f%d" % (i - 1), "a", "b")] if i else
                                             [node("Relu", ["a"], ["b"])]) for i in range(1000)]),
    "doubling": lambda: simple([call("f39", "x", "y")], functions=doubling(40), domains=["local"]),
    "expand": lambda: constant_of("Expand", [int64s("c0", [7]), [BIG, BIG]]),
    "expand_one": lambda: constant_of("Expand", [int64s("c0", [7]), [BIG]]),
    "filled": lambda: constant_of("ConstantOfShape", [[BIG]]),
    "overflow": lambda: constant_of("ConstantOfShape", [[1 << 32, 1 << 32]]),
    "negative": lambda: constant_of("ConstantOfShape", [[-5]]),
    "tile": lambda: constant_of("Tile", [int64s("c0", [7]), [BIG]]),
    "tile_minus": lambda: constant_of("Tile", [int64s("c0", [7]), [-1]]),
    "pad": lambda: constant_of("Pad", [int64s("c0", [7]), [BIG, 0]]),
    "pad_lowest": lambda: simple([node("Pad", ["x", "p"], ["y"], "p")], [int64s("p", [-1 << 63, 0, (1 << 63) - 1, 0])],
                                 outputs=[value("y", [1, 4])]),
    "range": lambda: constant_of("Range", [scalar("c0", 0), scalar("c1", 1 << 62), scalar("c2", 1)]),
    "range_zero": lambda: constant_of("Range", [scalar("c0", 0), scalar("c1", 4), scalar("c2", 0)]),
    "onehot": lambda: constant_of("OneHot", [int64s("c0", [7]), scalar("c1", BIG), int64s("c2", [0, 1])]),
    "reshape": lambda: simple([node("Reshape", ["x", "s"], ["y"], "r")], [int64s("s", [1 << 62, 8])]),
    "gather": lambda: simple([node("Gather", ["w", "i"], ["y"], "g")], [tensor("w", [4, 4], raw=floats(16)),
                                                                        int64s("i", [4, -5])]),
    "slice": lambda: simple([node("Slice", ["x", "b", "e", "a", "s"], ["y"], "s")],
                            [int64s("b", [-1 << 63]), int64s("e", [(1 << 63) - 1]), int64s("a", [1]),
                             int64s("s", [-1 << 63])]),
    "zero": lambda: simple([node("Div", ["c", "z"], ["d"], "div"), node("Reshape", ["x", "d"], ["y"], "r")],
                           [int64s("c", [2, 4]), int64s("z", [0, 0])]),
    "lowest": lambda: simple([node("Div", ["c", "z"], ["d"], "div"), node("Reshape", ["x", "d"], ["y"], "r")],
                             [int64s("c", [-1 << 63]), int64s("z", [-1])]),
    "axis": lambda: simple([node("Softmax", ["x"], ["y"], "s", axis=7)]),
    "perm": lambda: simple([node("Transpose", ["x"], ["y"], "t", perm=[0, 0])]),
    "batch_dims": lambda: simple([node("GatherND", ["x", "i"], ["y"], "g", batch_dims=-5)], [int64s("i", [0])]),
    "far_axis": lambda: simple([node("LayerNormalization", ["x", "w"], ["y", "m"], "ln", axis=(1 << 63) - 1)],
                               [tensor("w", [4], raw=floats(4))]),
    "equation": lambda: simple([node("Einsum", ["x", "x"], ["y"], "e", equation="ij,i-j->ij")]),
    "dots": lambda: simple([node("Einsum", ["x"], ["y"], "e", equation="......")]),
    "lie": lambda: simple([node("Relu", ["x"], ["y"], "relu")], outputs=[value("y", [3, 5])]),
    "lie_inside": lambda: model(graph([node("Relu", ["x"], ["h"], "one"), node("Relu", ["h"], ["y"], "two")], X, Y,
                                      values=[value("h", [7, 7])])),
    "many": lambda: simple([node("Relu", ["x" if i == 0 else "v%d" % i], ["y" if i == 29999 else "v%d" % (i + 1)])
                            for i in range(30000)]),
    "many_weights": lambda: simple([node("Add", ["x" if i == 0 else "v%d" % i, "w%d" % i],
                                         ["y" if i == 4999 else "v%d" % (i + 1)]) for i in range(5000)],
                                   [tensor("w%d" % i, [4], raw=floats(4)) for i in range(5000)]),
    "nested": lambda: simple([node("If", ["c"], ["y"], "if", then_branch=nested(90), else_branch=nested(1))],
                             [tensor("c", [], BOOL, raw=b"\1")]),
}
if __name__ == "__main__":
    write(kinds[sys.argv[2]]())
