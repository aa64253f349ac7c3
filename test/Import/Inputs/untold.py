# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What PyTorch's older exporter leaves of a module: arrays under their names, be
# they parameters or buffers, some of one number (named); arrays that it has
# computed (computed); transposed copies of equal weights (twins); the zeros of
# a padding row (padding). And adapters, of which no exporter says whether they
# train alone (adapters); what a module's author says of its code (stopping).

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
elif kind == "computed":
    nodes = [node("Add", ["x", "onnx::Add_9"], ["a"], "/Add"), node("Mul", ["a", "head.weight"], ["b"], "/head/Mul"),
             total("b")]
    arrays = [tensor("onnx::Add_9", [], raw=floats(1)), tensor("head.weight", [4], raw=floats(4))]
elif kind == "twins":
    nodes = [node("MatMul", ["x", "onnx::MatMul_7"], ["a"], "/net/net.0/MatMul"),
             node("MatMul", ["a", "onnx::MatMul_8"], ["b"], "/net/net.1/MatMul"), total("b")]
    arrays = [tensor("onnx::MatMul_7", [4, 4], raw=floats(16)), tensor("onnx::MatMul_8", [4, 4], raw=floats(16))]
elif kind == "padding":
    x = [value("ids", [1, 3], INT64)]
    nodes = [node("Gather", ["embed.weight", "ids"], ["a"], "/embed/Gather"), total("a")]
    arrays = [tensor("embed.weight", [4, 2], raw=floats(4, 1) + bytes(8) + floats(2, 1))]
elif kind == "adapters":
    nodes = [node("Mul", ["x", "h.base.weight"], ["a"], "/Mul"), node("Mul", ["a", "h.lora_A.weight"], ["b"], "/Mul_1"),
             total("b")]
    arrays = [tensor("h.base.weight", [4], raw=floats(4)), tensor("h.lora_A.weight", [4], raw=floats(4))]
elif kind == "stopping":
    nodes = [node("Mul", ["x", "w.weight"], ["a"], "/Mul"), total("a")]
    arrays = [tensor("w.weight", [4], raw=floats(4))]
    meta = {"shardonnx.module": '{"version":1,"parameters":[{"names":["w.weight"],"requires_grad":true}],'
            '"buffers":[],"dropout":{},"stops_gradients":["Quantiser"]}'}
producer = b"" if kind == "adapters" else field(2, "pytorch")
write(model(graph(nodes, x, loss, arrays), meta=meta) + producer)
