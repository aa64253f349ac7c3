# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What ONNX has no place for: a padding row, smoothed labels, x.detach(); and a
# batch norm in training, which the exporter writes as in inference. With the
# word "erased", the exporter's optimizer has taken detach() out; with "folded",
# it has computed what was detached, from the source that follows; with "buffer",
# what is detached has no gradient; with "compared", it is only compared; with
# "averaged", rows are scattered by their mean.

import sys

from onnxfile import *


def call(result, target, arguments, kwargs=""):
    return {
        "pkg.torch.onnx.fx_node": "%%%s : [num_users=1] = call_function[target="
        "torch.ops.aten.%s](args = (%s), kwargs = {%s})" % (result, target, arguments, kwargs),
    }


signature = """
# inputs
p_embed_weight: PARAMETER target='embed.weight'
p_scale: PARAMETER target='scale'
p_shift: PARAMETER target='shift'
b_mean: BUFFER target='mean' persistent=True
b_variance: BUFFER target='variance' persistent=True
ids: USER_INPUT
labels: USER_INPUT
"""
erased = "erased" in sys.argv
compared = "compared" in sys.argv
averaged = "averaged" in sys.argv
nodes = [
    node("Gather", ["embed.weight", "ids"], ["x"], "node_embedding",
         meta=call("x", "embedding.default", "%p_embed_weight, %ids, 2")),
    node("Gather", ["embed.weight", "ids"], ["y"], "node_embedding_1",
         meta=call("y", "embedding.default", "%p_embed_weight, %ids")),
    node("Identity", ["y"], ["detach"], "node_detach",
         meta=call("detach", "detach.default", "%y,")),
    node("Add", ["x", "y" if erased else "averages" if averaged else "detach"], ["z"], "node_add",
         meta=call("z", "add.Tensor", "%x, %y" if compared else "%x, %detach")),
    node("BatchNormalization", ["w" if compared else "z", "scale", "shift", "mean", "variance"], ["n"], "node_norm",
         meta=call("n", "_native_batch_norm_legit_functional.default",
                   "%z, %p_scale, %p_shift, %b_mean, %b_variance, True, 0.1, 1e-05")),
    node("SoftmaxCrossEntropyLoss", ["n", "labels"], ["loss"], "node_loss",
         meta=call("loss", "cross_entropy_loss.default", "%n, %labels, None, 1, -100, 0.25"),
         reduction="mean"),
]
constants, values = [], []
if compared:
    nodes[4:4] = [node("Equal", ["y", "y"], ["same"], "node_ne",
                       meta=call("ne", "ne.Tensor", "%detach, %detach")),
                  node("Where", ["same", "z", "x"], ["w"], "node_where",
                       meta=call("w", "where.self", "%ne, %z, %x"))]
if averaged:
    nodes[3:3] = [node("ScatterElements", ["x", "rows", "detach"], ["averages"], "node_scatter", axis=0,
                       meta=call("averages", "scatter_reduce.two", "%x, 0, %rows, %detach, mean"))]
    constants = [tensor("rows", [3, 4], INT64, raw=bytes(96))]
if "buffer" in sys.argv:
    nodes[1] = node("Neg", ["mean"], ["y"], "node_neg", meta=call("y", "neg.default", "%b_mean"))
if erased:
    del nodes[2]
elif "folded" in sys.argv:
    del nodes[1:3]
    constants = [tensor("detach", [4], raw=floats(4))]
    values = [value("detach", [4], meta={
        "pkg.onnxscript.optimizer.folded_from": repr(sys.argv[-1:])})]
write(
    model(
        graph(
            nodes,
            [value("ids", [3], INT64), value("labels", [3], INT64)],
            [value("loss", [])],
            [tensor("embed.weight", [5, 4], raw=floats(20))]
            + [tensor(name, [4], raw=floats(4)) for name in ("scale", "shift", "mean", "variance")]
            + constants,
            values,
            meta={"pkg.torch.export.ExportedProgram.graph_signature": signature},
        )
    )
)
