# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What PyTorch's exporter with optimize=True does to parameters: a linear weight
# is stored transposed under another name, two equal norms are merged, parameters
# are folded into constants, a buffer stays.

from onnxfile import *


def fx(target, *arguments):
    return {
        "pkg.torch.onnx.fx_node": "%%n : [num_users=1] = call_function[target="
        "torch.ops.%s.default](args = (%s), kwargs = {})" % (target, ", ".join("%" + a for a in arguments)),
    }


def scopes(*path):
    return {"pkg.torch.onnx.name_scopes": repr(["", *path, "node"])}


signature = """
# inputs
p_fc_weight: PARAMETER target='fc.weight'
p_fc_bias: PARAMETER target='fc.bias'
p_n1_weight: PARAMETER target='n1.weight'
p_n2_weight: PARAMETER target='n2.weight'
p_wpe_weight: PARAMETER target='wpe.weight'
p_type_weight: PARAMETER target='type.weight'
p_n3_weight: PARAMETER target='n3.weight'
p_own_weight: PARAMETER target='own.weight'
p_experts: PARAMETER target='experts'
p_lost_weight: PARAMETER target='lost.weight'
p_bucket_weight: PARAMETER target='bucket.weight'
p_gn_weight: PARAMETER target='gn.weight'
p_gate: PARAMETER target='gate'
p_places: PARAMETER target='places'
p_scaled_weight: PARAMETER target='scaled.weight'
p_layer_scale: PARAMETER target='layer_scale'
p_padded_weight: PARAMETER target='padded.weight'
p_even_weight: PARAMETER target='even.weight'
p_half_bias: PARAMETER target='half_bias'
b_table: BUFFER target='table' persistent=False
x: USER_INPUT

# outputs
out: USER_OUTPUT
"""
write(
    model(
        graph(
            [
                node("Mul", ["x", "n1.weight"], ["a"], "node_mul",
                     meta={**scopes("n1"), **fx("aten.mul", "x", "p_n1_weight")}),
                node("MatMul", ["a", "val_7"], ["b"], "node_linear",
                     meta={**scopes("h.0", "h.0.fc"), **fx("aten.linear", "a", "p_fc_weight", "p_fc_bias")}),
                node("Add", ["b", "fc.bias"], ["c"], "node_linear_add",
                     meta={**scopes("h.0", "h.0.fc"), **fx("aten.linear", "a", "p_fc_weight", "p_fc_bias")}),
                node("Mul", ["c", "n1.weight"], ["d"], "node_mul_1",
                     meta={**scopes("n2"), **fx("aten.mul", "c", "p_n2_weight")}),
                node("Add", ["d", "embedding_1"], ["e"], "node_add"),
                node("Mul", ["e", "table"], ["f"], "node_mul_2"),
                node("Add", ["f", "embedding_2"], ["g"], "node_add_1"),
                node("Mul", ["add_3", "g"], ["h"], "node_mul_3"),
                node("Mul", ["h", "sigmoid"], ["i"], "node_mul_4"),
                node("Mul", ["i", "embedding_3"], ["j"], "node_mul_5"),
                node("Mul", ["j", "val_9"], ["k"], "node_group_norm",
                     meta=fx("aten.group_norm", "j", "4", "p_gn_weight")),
                node("Mul", ["k", "add_4"], ["l"], "node_mul_6"),
                node("Mul", ["l", "unsqueeze_1"], ["m"], "node_mul_7"),
                node("Add", ["m", "embedding_4"], ["n"], "node_add_2"),
                node("Add", ["n", "embedding_5"], ["n2"], "node_add_5"),
                node("Add", ["n2", "embedding_6"], ["n3"], "node_add_6"),
                node("Add", ["n3", "slice_2"], ["o"], "node_add_3"),
                node("MatMul", ["o", "permute_1"], ["out"], "node_matmul", meta=fx("aten.linear", "o", "t", "getitem_1")),
                node("GatherND", ["val_8", "ids"], ["picked"], "node_gather"),
                node("Mul", ["picked", "select"], ["column"], "node_mul_8"),
                node("Add", ["column", "zeros_like"], ["scaled"], "node_add_4"),
            ],
            [value("x", [2, 4]), value("ids", [5, 1], INT64)],
            [value("out", [3, 2, 4]), value("scaled", [5, 2, 4])],
            [
                tensor("n1.weight", [4], raw=floats(4, 1)),
                tensor("val_7", [4, 4], raw=floats(16)),
                tensor("fc.bias", [4], raw=floats(4)),
                tensor("embedding_1", [2, 4], raw=floats(8)),
                tensor("table", [4], raw=floats(4)),
                tensor("embedding_2", [1, 2, 4], raw=floats(4) + floats(4)),
                tensor("add_3", [4], raw=floats(4)),
                tensor("embedding_4", [2, 4], raw=floats(8)),
                tensor("embedding_5", [2, 4], raw=floats(4) + bytes(16)),
                tensor("embedding_6", [2, 4], raw=floats(4) + floats(4)),
                tensor("slice_2", [1, 2, 4], raw=floats(8)),
                tensor("add_4", [4], raw=floats(4)),
                tensor("unsqueeze_1", [2, 1], raw=floats(2)),
                tensor("permute_1", [4, 4], raw=floats(16)),
                tensor("val_8", [3, 2, 4], raw=floats(24)),
                tensor("sigmoid", [4], raw=floats(4)),
                tensor("val_9", [2, 1], raw=floats(2)),
                tensor("embedding_3", [3, 2, 4], raw=floats(4) + floats(20)),
                tensor("select", [1], raw=floats(1)),
                tensor("zeros_like", [4], raw=floats(4)),
            ],
            [
                value("val_7", [4, 4], meta={"pkg.onnxscript.optimizer.folded_from": "['fc.weight']"}),
                value("embedding_1", [2, 4],
                      meta={"pkg.onnxscript.optimizer.folded_from": "['arange', 'wpe.weight']"}),
                value("embedding_2", [1, 2, 4],
                      meta={"pkg.onnxscript.optimizer.folded_from": "['type.weight', 'zeros']"}),
                value("permute_1", [4, 4], meta={"pkg.onnxscript.optimizer.folded_from": "['own.weight']"}),
                value("val_8", [3, 2, 4], meta={"pkg.onnxscript.optimizer.folded_from": "['experts']"}),
                value("add_3", [4], meta={"pkg.onnxscript.optimizer.folded_from": "['n3.weight', 'scalar_tensor_default_2', 'val_11']"}),
                value("embedding_4", [2, 4],
                      meta={"pkg.onnxscript.optimizer.folded_from": "['arange', 'mul', 'scaled.weight']"}),
                # A row of zeros may be that of a padding_idx; places that were
                # counted are different rows, though these are equal.
                value("embedding_5", [2, 4],
                      meta={"pkg.onnxscript.optimizer.folded_from": "['arange', 'padded.weight']"}),
                value("embedding_6", [2, 4],
                      meta={"pkg.onnxscript.optimizer.folded_from": "['arange', 'even.weight']"}),
                value("slice_2", [1, 2, 4], meta={"pkg.onnxscript.optimizer.folded_from": "['places', 'slice_1', 'val_5']"}),
                value("add_4", [4], meta={"pkg.onnxscript.optimizer.folded_from": "['gate', 'tanh', 'val_3']"}),
                value("unsqueeze_1", [2, 1],
                      meta={"pkg.onnxscript.optimizer.folded_from": "['layer_scale', 'val_4']"}),
                value("val_9", [2, 1], meta={"pkg.onnxscript.optimizer.folded_from": "['gn.weight', 'val_2']"}),
                value("sigmoid", [4], meta={"pkg.onnxscript.optimizer.folded_from": "['lost.weight']"}),
                # Of parameters that the graph also has as they are.
                value("select", [1], meta={"pkg.onnxscript.optimizer.folded_from": "['fc.bias', 'val_12']"}),
                value("zeros_like", [4], meta={"pkg.onnxscript.optimizer.folded_from": "['n1.weight', 'val_13']"}),
                value("embedding_3", [3, 2, 4],
                      meta={"pkg.onnxscript.optimizer.folded_from": "['bucket.weight', 'index']"}),
            ],
            {"pkg.torch.export.ExportedProgram.graph_signature": signature},
        )
    )
)
