# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What PyTorch's older exporter leaves of a module: arrays under their names, be
# they parameters or buffers, some of one number (named); arrays that it has
# computed (computed, computed-row); transposed copies of equal weights (twins);
# the zeros of a padding row (padding); buffers that their numbers tell, and
# parameters that start nearly so (tables); a detach() that it has erased
# (stop:OP OP, of `y OP x` and x). And adapters, of which no exporter says
# whether they train alone (adapters; with a bias beside them: adapters-bias);
# what a module's author says of its code (stopping).

import math
import struct
import sys

from onnxfile import *

kind = sys.argv.pop(1)
x, loss = [value("x", [1, 2, 4])], [value("loss", [])]
total = lambda name: node("ReduceSum", [name], ["loss"], "/ReduceSum", keepdims=0)
meta = {}
if kind == "named":
    nodes = [node("Mul", ["x", "scale"], ["a"], "/Mul"), node("Add", ["a", "table"], ["b"], "/Add"),
             node("Conv", ["b", "head.weight", "head.bias"], ["c"], "/head/Conv"), total("c")]
    arrays = [tensor("scale", [1], raw=floats(1)), tensor("table", [2, 4], raw=floats(8)),
              tensor("head.weight", [1, 2, 1], raw=floats(2)), tensor("head.bias", [1], raw=floats(1))]
elif kind in ("computed", "computed-row"):
    nodes = [node("Add", ["x", "onnx::Add_9"], ["a"], "/Add"), node("Mul", ["a", "head.weight"], ["b"], "/head/Mul"),
             total("b")]
    row = [4] if kind == "computed-row" else []
    arrays = [tensor("onnx::Add_9", row, raw=floats(len(row) * 4 or 1)), tensor("head.weight", [4], raw=floats(4))]
elif kind == "twins":
    nodes = [node("MatMul", ["x", "onnx::MatMul_7"], ["a"], "/net/net.0/MatMul"),
             node("MatMul", ["a", "onnx::MatMul_8"], ["b"], "/net/net.1/MatMul"), total("b")]
    arrays = [tensor("onnx::MatMul_7", [4, 4], raw=floats(16)), tensor("onnx::MatMul_8", [4, 4], raw=floats(16))]
elif kind == "padding":
    x = [value("ids", [1, 3], INT64)]
    nodes = [node("Gather", ["embed.weight", "ids"], ["a"], "/embed/Gather"), total("a")]
    arrays = [tensor("embed.weight", [4, 2], raw=floats(4, 1) + bytes(8) + floats(2, 1))]
elif kind == "tables":
    waves = lambda rows, width, pad=None: [
        0 if row == pad else (math.sin, math.cos)[c % 2](row / 100 ** (c // 2 * 2 / width))
        for row in range(rows) for c in range(width)]
    slopes = [2 ** (-4 * (head + 1)) for head in range(2)]
    known = {
        "waves": ([10, 4], waves(10, 4)), "rope": ([1, 10, 1, 4], waves(10, 4)), "embed.weight": ([10, 4], waves(10, 4, 1)),
        "tril": ([4, 4], [float(j <= i) for i in range(4) for j in range(4)]),
        "hide": ([4, 4], [-math.inf if j > i else 0 for i in range(4) for j in range(4)]),
        "soft": ([1, 4, 4], [-1e4 if j > i else 0 for i in range(4) for j in range(4)]),
        "slopes": ([2, 1], slopes), "alibi": ([2, 1, 8], [slope * j for slope in slopes for j in range(8)]),
        "places": ([1, 8], list(range(8))), "far": ([8, 8], [abs(i - j) for i in range(8) for j in range(8)]),
        # These train.
        "line": ([9, 2], [i / 4 - 1 for i in range(9) for _ in range(2)]), "row": ([1, 8], [i / 7 for i in range(8)]),
        "decay": ([4], [0.6 ** i for i in range(4)]), "count": ([8], list(range(8))),
        "nearly": ([10, 4], [x + 1e-3 * (i % 7) for i, x in enumerate(waves(10, 4))]),
        "eye.weight": ([4, 4], [float(i == j) for i in range(4) for j in range(4)]),
        "zeros": ([4, 4], [0] * 16),
    }
    arrays = [tensor(name, shape, raw=struct.pack(f"<{len(numbers)}f", *numbers)) for name, (shape, numbers) in known.items()]
    nodes, last = [], "x"
    for i, name in enumerate(known):
        nodes += [node("ReduceSum", [name], [f"s{i}"], f"/Sum_{i}", keepdims=0), node("Add", [last, f"s{i}"], [f"a{i}"], f"/Add_{i}")]
        last = f"a{i}"
    nodes.append(total(last))
elif kind.startswith("stop:"):
    plus, minus = kind[5:].split()
    nodes = [node("Mul", ["x", "w.weight"], ["a"], "/Mul"), node("Round", ["a"], ["b"], "/Round"),
             # The older exporter computes the same twice.
             node("Mul", ["x", "w.weight"], ["c"], "/Mul_1"), node(minus, ["b", "c"], ["d"], "/Sub"),
             node(plus, ["d", "a"], ["e"], "/Last"), total("e")]
    arrays = [tensor("w.weight", [4], raw=floats(4))]
elif kind in ("adapters", "adapters-bias"):
    nodes = [node("Mul", ["x", "h.base.weight"], ["a"], "/Mul"), node("Mul", ["a", "h.lora_A.weight"], ["b"], "/Mul_1")]
    arrays = [tensor("h.base.weight", [4], raw=floats(4)), tensor("h.lora_A.weight", [4], raw=floats(4))]
    if kind == "adapters-bias":
        nodes += [node("Add", ["b", "head.bias"], ["c"], "/head/Add")]
        arrays += [tensor("head.bias", [4], raw=floats(4))]
    nodes += [total("c" if kind == "adapters-bias" else "b")]
elif kind == "stopping":
    nodes = [node("Mul", ["x", "w.weight"], ["a"], "/Mul"), total("a")]
    arrays = [tensor("w.weight", [4], raw=floats(4))]
    meta = {"shardonnx.module": '{"version":1,"parameters":[{"names":["w.weight"],"requires_grad":true}],'
            '"buffers":[],"dropout":{},"stops_gradients":["Quantiser"]}'}
producer = b"" if kind == "adapters" else field(2, "pytorch")
write(model(graph(nodes, x, loss, arrays), meta=meta) + producer)
