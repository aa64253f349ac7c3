# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What an exporter's optimizer has made one: merged_values.py FILE KIND.
#
#   product    x @ w, which was computed of x.detach() once more
#   apart      the same, kept apart
#   folded     a row of each of three vectors that started equal, folded
#   statistics a batch norm, whose statistics started as its weight and bias

import sys

from onnxfile import *


def call(result, target, arguments):
    return {"pkg.torch.onnx.fx_node": "%%%s : [num_users=1] = call_function[target=torch.ops.aten.%s](args = (%s), "
            "kwargs = {})" % (result, target, arguments)}


kind = sys.argv[2]
parameters = {"product": ["w"], "apart": ["w"], "folded": ["w", "a", "b", "c"], "statistics": ["w", "s", "t"]}[kind]
signature = "# inputs\n" + "".join("p_%s: PARAMETER target='%s'\n" % (name, name) for name in parameters)
if kind == "statistics":
    signature += "b_mean: BUFFER target='mean' persistent=True\nb_var: BUFFER target='var' persistent=True\n"
signature += "x: USER_INPUT\nlabels: USER_INPUT\n"
values = []
matrix = tensor("w", [4, 4], floats=[float(i % 5) for i in range(16)])
if kind in ("product", "apart"):
    nodes = [node("MatMul", ["x", "w"], ["matmul"], "node_matmul", meta=call("matmul", "matmul.default", "%x, %p_w"))]
    if kind == "apart":
        nodes += [node("MatMul", ["x", "w"], ["matmul_1"], "node_matmul_1",
                       meta=call("matmul_1", "matmul.default", "%x, %p_w"))]
    nodes += [node("Tanh", ["matmul_1" if kind == "apart" else "matmul"], ["tanh"], "node_tanh",
                   meta=call("tanh", "tanh.default", "%matmul_1,")),
              node("Add", ["matmul", "tanh"], ["y"], "node_add", meta=call("y", "add.Tensor", "%matmul, %tanh"))]
    weights = [matrix]
elif kind == "folded":
    nodes = [node("MatMul", ["x", "w"], ["matmul"], "node_matmul", meta=call("matmul", "matmul.default", "%x, %p_w")),
             node("Mul", ["matmul", "unsqueeze_1"], ["mul"], "node_mul",
                  meta=call("mul", "mul.Tensor", "%matmul, %unsqueeze_1")),
             node("Mul", ["mul", "unsqueeze_1"], ["mul_1"], "node_mul_1",
                  meta=call("mul_1", "mul.Tensor", "%mul, %unsqueeze_3")),
             node("Mul", ["mul_1", "unsqueeze_1"], ["y"], "node_mul_2",
                  meta=call("y", "mul.Tensor", "%mul_1, %unsqueeze_5"))]
    weights = [matrix, tensor("unsqueeze_1", [1, 4], floats=[1.0] * 4)]
    values = [value("unsqueeze_1", [1, 4], meta={"pkg.onnxscript.optimizer.folded_from": "['a', 'unsqueeze']"})]
else:
    nodes = [node("MatMul", ["x", "w"], ["matmul"], "node_matmul", meta=call("matmul", "matmul.default", "%x, %p_w")),
             node("BatchNormalization", ["matmul", "s", "t", "t", "s"], ["y"], "node_norm",
                  meta=call("y", "_native_batch_norm_legit_no_training.default",
                            "%matmul, %p_s, %p_t, %b_mean, %b_var, 0.1, 1e-05"))]
    weights = [matrix, tensor("s", [4], floats=[1.0] * 4), tensor("t", [4], floats=[0.0] * 4)]
nodes.append(node("SoftmaxCrossEntropyLoss", ["y", "labels"], ["loss"], "node_loss", reduction="mean",
                  meta=call("loss", "cross_entropy_loss.default", "%y, %labels")))
write(model(graph(nodes, [value("x", [3, 4]), value("labels", [3], INT64)], [value("loss", [])], weights, values,
                  meta={"pkg.torch.export.ExportedProgram.graph_signature": signature})))
