# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Models with one mistake each: broken.py OUT KIND.

import sys

from onnxfile import *

X, Y = [value("x", ["batch", 4])], [value("y", ["batch", 4])]
RELU = [node("Relu", ["x"], ["y"], "relu")]


def simple(initializers=[], nodes=RELU, **kind):
    return model(graph(nodes, X, Y, initializers), **kind)


branch = graph([node("Relu", ["x"], ["b"])], [], [value("b", [2, 4])])
kinds = {
    "newer": simple(opset=99),
    "no_opset": field(1, 8) + field(7, graph(RELU, X, Y).bytes),
    "no_graph": field(1, 8) + field(8, field(2, 18)),
    "undefined": simple(nodes=[node("Add", ["x", "nowhere"], ["y"], "add")]),
    "unknown_op": simple(nodes=[node("Frobnicate", ["x"], ["y"], "frob")]),
    "shapes": simple([tensor("w", [5, 4], raw=floats(20))],
                     [node("MatMul", ["x", "w"], ["y"], "matmul")]),
    "short_data": simple([tensor("w", [4, 4], raw=floats(12))]),
    "twice": simple([tensor("w", [1], raw=floats(1)), tensor("w", [1], raw=floats(1))]),
    "negative": simple([tensor("w", [-4, 4], raw=floats(16))]),
    "overflow": simple([tensor("w", [1 << 62, 1 << 62], raw=floats(16))]),
    # f16 as integers of variable length, which no file can be mapped to.
    "varints": simple(
        [field(1, 4) + field(2, 10) + field(5, b"".join(varint(i) for i in [0, 15360, 16384, 300])) + field(8, "w")],
        [node("Add", ["x", "w"], ["y"], "add")]),
    "strings": simple([tensor("w", [1], 8, raw=b"abcd")], [node("Add", ["x", "w"], ["y"], "add")]),
    "no_shape": model(graph(RELU, [field(1, "x") + field(2, field(1, field(1, FLOAT)))], Y)),
    "untyped_outputs": model(graph(RELU, X, [field(1, "y"), field(1, "w")], [tensor("w", [2], raw=floats(2))])),
    "optional": simple(nodes=[node("Optional", ["x"], ["o"]), node("OptionalGetElement", ["o"], ["y"])]),
    "control_flow": model(
        graph(
            [
                node("If", ["c"], ["y"], "choose", then_branch=branch, else_branch=branch),
            ],
            [value("x", [2, 4]), value("c", [], BOOL)],
            [value("y", [2, 4])],
        )
    ),
    # Optimum's merged decoders.
    "merged_decoder": model(
        graph(
            [
                node("If", ["use_cache_branch"], ["y"], "choose", then_branch=branch, else_branch=branch),
            ],
            [value("x", ["batch", 4]), value("use_cache_branch", [1], BOOL)],
            [value("y", ["batch", 4])],
        )
    ),
    "double": model(graph([node("Cast", ["x"], ["y"], "cast", to=1)], [value("x", [2, 4], 11)], Y)),
    # f8E4M3FN has number 17.
    "float8": model(graph([node("Cast", ["x"], ["y"], "cast", to=17)], [value("x", [2, 4])], [value("y", [2, 4], 17)])),
    "preview": model(
        graph([node("Frobnicate", ["x"], ["y"], "frob", "somewhere")], [value("x", [2, 4])], [value("y", [2, 4])]),
        opset=None, domains=["somewhere"]),
    "strange": model(
        graph(
            [
                node("Relu", ["x"], ["a"], domain="com.example"),
                node("Frob", ["a"], ["b"]),
                node("If", ["b"], ["c"], "choose", then_branch=branch, else_branch=branch),
                node("Multinomial", ["c"], ["n"]),
                node("Relu", ["c"], ["y"], "r", "com.example"),
            ],
            [value("x", [2, 4])],
            [value("y", [2, 4])],
        ),
        domains=["com.example"],
    ),
    "full_domain": model(graph([node("Relu", ["x"], ["y"], "relu", "ai.onnx")], X, Y), opset=None) +
    field(8, field(1, "ai.onnx") + field(2, 18)),
    # The converter wants a shape of what it has not inferred one for.
    "old": model(
        graph([node("Gather", ["w", "x"], ["a"], "gather"), node("Tanh", ["a"], ["b"], "tanh"),
               node("Add", ["a", "b"], ["y"], "add")],
              [value("x", [2], INT64)], [value("y", [2, 4])], [tensor("w", [4, 4], raw=floats(16))]),
        opset=1),
    "three_dims": model(
        graph([node("Relu", ["x"], ["y"], "relu")],
              [value("x", ["batch", "time", 4]), value("ids", ["batch", "tokens"], INT64)],
              [value("y", ["batch", "time", 4])])
    ),
}
write(kinds[sys.argv[2]])
