# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What optimize=True leaves of a linear layer and the batch norm behind it: one
# Gemm with the layer's names, and the trace of the norm.

from onnxfile import *

write(
    model(
        graph(
            [
                node("Gemm", ["x", "fc.weight", "fc.bias"], ["out"], "node_Gemm_9", meta={
                    "pkg.torch.onnx.fx_node": "%_native_batch_norm_legit_no_training : [num_users=1] = call_function[target=torch.ops.aten."
                    "_native_batch_norm_legit_no_training.default](args = (%linear, %p_bn_weight, %p_bn_bias), kwargs = {})"}, transB=1),
            ],
            [value("x", [2, 4])],
            [value("out", [2, 3])],
            [tensor("fc.weight", [3, 4], raw=floats(12)), tensor("fc.bias", [3], raw=floats(3))],
            [],
            {
                "pkg.torch.export.ExportedProgram.graph_signature": "# inputs\n"
                + "".join(f"p_{n.replace('.', '_')}: PARAMETER target='{n}'\n" for n in ("fc.weight", "fc.bias", "bn.weight", "bn.bias"))
                + "x: USER_INPUT\n"
            },
        )
    )
)
