# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What PyTorch's older exporter does to linear layers: their transposed weights
# under numbers, a copy of the tied embedding among them; a layer that runs
# twice has two copies.

from onnxfile import *


def turned(name, rows, columns, raw):
    """The transposed matrix of floats `raw`."""
    cells = [raw[4 * i : 4 * i + 4] for i in range(rows * columns)]
    return tensor(name, [columns, rows], raw=b"".join(cells[r * columns + c] for c in range(columns) for r in range(rows)))


write(
    model(
        graph(
            [
                node("Gather", ["embed.weight", "ids"], ["x"], "/embed/Gather"),
                node("MatMul", ["x", "onnx::MatMul_11"], ["a"], "/layers.0/fc/MatMul"),
                node("MatMul", ["a", "onnx::MatMul_12"], ["b"], "/layers.0/fc/MatMul_1"),
                node("MatMul", ["b", "onnx::MatMul_13"], ["logits"], "/head/MatMul"),
            ],
            [value("ids", [2, 3], INT64)],
            [value("logits", [2, 3, 8])],
            [
                tensor("embed.weight", [8, 4], raw=floats(32)),
                tensor("onnx::MatMul_11", [4, 4], raw=floats(16)),
                tensor("onnx::MatMul_12", [4, 4], raw=floats(16)),
                turned("onnx::MatMul_13", 8, 4, floats(32)),
            ],
        )
    )
)
