# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What PyTorch's exporter leaves of torch.no_grad(): the stack trace of a region
# names no file. Kinds: plain, autocast (the region is of torch.autocast()),
# merged (an equal product outside was merged with the one inside), waves (sines
# of positions are looked up), outside (so, but in no region), said:KEY (the
# author says under that key which of both it is).

import json
import math
import struct
import sys

from onnxfile import *

kind, _, said = sys.argv.pop(1).partition(":")
annotation = {"version": 1, "parameters": [{"names": [n], "requires_grad": True} for n in ("a.weight", "b.weight")],
              "buffers": [], said: "no_grad" if said == "regions" else ["Model"]}


def traced(call, target, arguments, frame):
    return {
        "pkg.torch.onnx.fx_node": "%%%s : [num_users=1] = call_function[target="
        "torch.ops.aten.%s.default](args = (%s), kwargs = {})" % (call, target, arguments),
        "pkg.torch.onnx.stack_trace": frame,
    }


def inside(call, target, arguments, code):
    return traced(call, target, arguments,
                  f'File "<eval_with_key>.36", line 5, in forward\n    {call} = torch.ops.aten.{code}')


if kind in ("waves", "outside"):
    # A table that is read by a lookup, beside a weight that trains.
    lookup = inside("embedding", "embedding", "%p_a_weight, %ids", "embedding.default(p_a_weight, ids)")
    if kind == "outside":
        lookup.pop("pkg.torch.onnx.stack_trace")
    numbers = [(math.sin, math.cos)[c % 2](row / 100 ** (c // 2)) for row in range(8) for c in range(4)]
    write(model(graph(
        [node("Gather", ["a.weight", "ids"], ["embedding"], "node_embedding", meta=lookup),
         node("MatMul", ["embedding", "b.weight"], ["out"], "node_matmul",
              meta=traced("matmul", "matmul", "%embedding, %p_b_weight", 'File "model.py", line 14, in forward'))],
        [value("ids", [2], INT64)], [value("out", [2, 4])],
        [tensor("a.weight", [8, 4], raw=struct.pack("<32f", *numbers)), tensor("b.weight", [4, 4], raw=floats(16))], [],
        {"pkg.torch.export.ExportedProgram.graph_signature":
         "\n# inputs\np_a_weight: PARAMETER target='a.weight'\np_b_weight: PARAMETER target='b.weight'\nids: USER_INPUT\n"})))
    sys.exit()

outside = 'File "model.py", line 14, in forward\n    return self.b(h)'
operands = "arg4_1, arg0_1" if kind == "autocast" else "x, p_a_weight"
read = "%matmul_1" if kind == "merged" else "%tanh"
write(
    model(
        graph(
            [
                node("MatMul", ["x", "a.weight"], ["matmul"], "node_matmul",
                     meta=inside("matmul", "matmul", "%x, %p_a_weight", f"matmul.default({operands})")),
                node("Tanh", ["matmul"], ["tanh"], "node_tanh", meta=inside("tanh", "tanh", "%matmul", "tanh.default(matmul)")),
                node("MatMul", ["matmul" if kind == "merged" else "tanh", "b.weight"], ["last"], "node_last",
                     meta=traced("matmul_2", "matmul", f"{read}, %p_b_weight", outside)),
                node("Add", ["last", "tanh"], ["out"], "node_add", meta=traced("add", "add", "%matmul_2, %tanh", outside)),
            ],
            [value("x", [2, 4])],
            [value("out", [2, 4])],
            [tensor("a.weight", [4, 4], raw=floats(16)), tensor("b.weight", [4, 4], raw=floats(16))],
            [],
            {"pkg.torch.export.ExportedProgram.graph_signature":
             "\n# inputs\np_a_weight: PARAMETER target='a.weight'\np_b_weight: PARAMETER target='b.weight'\nx: USER_INPUT\n"},
        ), meta={"shardonnx.module": json.dumps(annotation)} if said else {},
    )
)
