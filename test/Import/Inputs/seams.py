# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What the trace says of gradients at bounds and ties, of an average's divisor,
# and of a squeeze of an axis that is longer than 1; and a pool with ceil_mode
# whose last window would begin in the padding.

import sys

from onnxfile import *


def call(result, target, arguments):
    return {
        "pkg.torch.onnx.fx_node": "%%%s : [num_users=1] = call_function[target="
        "torch.ops.aten.%s](args = (%s), kwargs = {})" % (result, target, arguments),
    }


def clip(name, target, arguments, op="Clip"):
    return node(op, ["w", "one"], [name], name, meta=call(name, target, arguments))


pool = dict(kernel_shape=[3], strides=[3], pads=[1, 1], ceil_mode=1)
nodes = [
    clip("number", "clamp.default", "%w, 1.0"),
    clip("whole", "clamp_min.Tensor", "%w, %scalar_tensor_default"),
    clip("tensor", "clamp.Tensor", "%w, %b_low"),
    clip("fused", "minimum.default", "%maximum, %high"),
    clip("max", "clamp.Tensor", "%w, %scalar_tensor_default_1", op="Max"),
    clip("larger", "maximum.default", "%w, %c", op="Max"),
    node("ReduceMax", ["w", "axes"], ["first"], "first",
         meta=call("first", "max.dim", "%w, 2"), keepdims=1),
    node("ReduceMax", ["w", "axes"], ["all"], "all",
         meta=call("all", "amax.default", "%w, [2]"), keepdims=1),
    node("AveragePool", ["w"], ["mean"], "mean",
         meta=call("mean", "avg_pool2d.default", "%w, [3], [3], [1], True, True, 5"), **pool),
    node("Squeeze", ["w", "axes"], ["same"], "same",
         meta={} if "wrong" in sys.argv else call("same", "squeeze.dim", "%w, 2")),
]
names = [n for n in ("number", "whole", "tensor", "fused", "max", "larger", "same")]
sums, last = [], "number"
for name in names[1:]:
    sums.append(node("Add", [last, name], ["sum_" + name], "add_" + name))
    last = "sum_" + name
for name in ("first", "all", "mean"):
    sums.append(node("ReduceSum", [name], ["total_" + name], "total_" + name, keepdims=0))
    sums.append(node("Add", [last, "total_" + name], ["sum_" + name], "add_" + name))
    last = "sum_" + name
sums.append(node("Mul", [last, "x"], ["y"], "y"))
sums.append(node("ReduceSum", ["y"], ["loss"], "loss", keepdims=0))
write(
    model(
        graph(
            nodes + sums,
            [value("x", [1, 2, 8])],
            [value("loss", [])],
            [tensor("w", [1, 2, 8], raw=floats(16)), tensor("one", [], raw=floats(1)),
             int64s("axes", [2])],
        )
    )
)
