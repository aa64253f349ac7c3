# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A graph of PyTorch's older exporter behind tools that simplify, quantize or
# join graphs: products are Gemms without a path, the transposed copy of a tied
# embedding and numbers of the program are initializers, the producer is another.
# With "prefix", names stand behind that of a graph; with "computed", a buffer is
# an array that may be anything; with "past", keys of earlier tokens are inputs; with
# "fused", an operator is ONNX Runtime's own.

from onnxfile import *


def turned(name, rows, columns, raw):
    """The transposed matrix of floats `raw`."""
    cells = [raw[4 * i : 4 * i + 4] for i in range(rows * columns)]
    return tensor(name, [columns, rows], raw=b"".join(cells[r * columns + c] for c in range(columns) for r in range(rows)))


pre = "lm/" if "prefix" in sys.argv else ""
computed, past = "computed" in sys.argv, "past" in sys.argv
nodes = [
    node("Gather", [pre + "embed.weight", pre + "input_ids"], ["/embed/Gather_output_0"], "/embed/Gather"),
    node("Gather", [pre + "wpe.weight", pre + "position_ids"], ["/wpe/Gather_output_0"], "/wpe/Gather"),
    node("Add", ["/embed/Gather_output_0", "/wpe/Gather_output_0"], ["/Add_output_0"], "/Add"),
    node("Reshape", ["/Add_output_0", "rows"], ["r"], "Reshape_2"),
    node("Gemm", ["r", pre + "onnx::MatMul_11", pre + "fc.bias"], ["a"], "Gemm_3"),
    node("Mul", ["a", "/act/Constant_1_output_0"], ["/act/Mul_output_0"], "/act/Mul"),
    node("Add", ["/act/Mul_output_0", "onnx::Add_30"], ["m"], "/Add_1") if computed
    else node("QuickGelu", ["/act/Mul_output_0"], ["m"], "/Gelu", domain="com.microsoft") if "fused" in sys.argv
    else node("Identity", ["/act/Mul_output_0"], ["m"], "/Identity"),
    node("DequantizeLinear", ["onnx::MatMul_12_q", "onnx::MatMul_12_s"], ["w"], "dq"),
    node("MatMul", ["m", "w"], ["b"], "MatMul_4"),
    node("Reshape", ["b", "shape"], ["c"], "Reshape_5"),
    node("MatMul", ["c", pre + "embed.weight_transposed"], ["logits" if not past else "l"], "MatMul_6"),
]
inputs = [value(pre + "input_ids", ["batch", "seq"], INT64), value(pre + "position_ids", ["batch", "seq"], INT64)]
if past:
    inputs += [value("attention_mask", ["batch", "past_seq + seq"], INT64), value("past.key", ["batch", 1, "past_seq", 4])]
    nodes += [
        node("Reshape", ["l", "keys"], ["k"], "Reshape_7"),
        node("Concat", ["past.key", "k"], ["present.key"], "/Concat", axis=2),
        node("Cast", ["attention_mask"], ["seen"], "/Cast", to=FLOAT),
        node("ReduceSum", ["seen"], ["all"], "/ReduceSum"),
        node("Mul", ["l", "all"], ["logits"], "/Mul"),
    ]
write(
    model(
        graph(
            nodes,
            inputs,
            [value("logits", ["batch", "seq", 8])],
            [
                tensor(pre + "embed.weight", [8, 4], raw=floats(32)),
                tensor(pre + "wpe.weight", [3, 4], raw=floats(12, 3.0)),
                tensor(pre + "onnx::MatMul_11", [4, 4], raw=floats(16)),
                tensor(pre + "fc.bias", [4], raw=floats(4)),
                tensor("/act/Constant_1_output_0", [1], raw=floats(1, 0.5)),
                tensor("onnx::MatMul_12_q", [4, 4], dtype=3, raw=bytes(range(16))),
                tensor("onnx::MatMul_12_s", [], raw=floats(1, 0.1)),
                turned(pre + "embed.weight_transposed", 8, 4, floats(32)),
                int64s("rows", [-1, 4]), int64s("shape", [2, 3, 4]), int64s("keys", [2, 1, -1, 4]),
            ] + ([tensor("onnx::Add_30", [4], raw=floats(4))] if computed else []),
        ), producer="simplifier", domains=["com.microsoft"] if "fused" in sys.argv else [],
    )
)
