# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Files in which an exporter has merged parameters that start equal, by what is
# left to tell them apart.

import sys

from onnxfile import *

kind = sys.argv.pop(1)
ones, zeros = [struct.pack("<f", x) for x in (1, 0)]


def fx(call, target, arguments):
    return {
        "pkg.torch.onnx.fx_node": "%%%s : [num_users=1] = call_function[target="
        "torch.ops.aten.%s.default](args = (%s), kwargs = {})" % (call, target, arguments),
    }


def scopes(*path):
    return {"pkg.torch.onnx.name_scopes": repr(["", *path, "node"])}


def norm(data, weight, bias, out, path, parameters, traced=True):
    call = fx(out, "layer_norm", f"%{data}, [4], {parameters}, 1e-05, False") if traced else {}
    return node("LayerNormalization", [data, weight, bias][: 3 if bias else 2], [out], "node_" + out,
                meta={**scopes(path), **call})


def signature(*names, buffers=[]):
    lines = [f"p_{n.replace('.', '_')}: PARAMETER target='{n}'" for n in names]
    lines += [f"b_{n.replace('.', '_')}: BUFFER target='{n}' persistent=True" for n in buffers]
    return {"pkg.torch.export.ExportedProgram.graph_signature": "\n# inputs\n" + "\n".join(lines) + "\nx: USER_INPUT\n"}


def folded(name, dims, source):
    return value(name, dims, meta={"pkg.onnxscript.optimizer.folded_from": repr([source])})


x, out = [value("x", [2, 4])], [value("out", [2, 4])]
vector = lambda name, number: tensor(name, [4], raw=number * 4)
matrix = lambda name, number: tensor(name, [4, 4], raw=number * 16)

if kind in ("operators", "signature"):
    # What the operators read, or only what modules there are. A norm without
    # weights reads a constant; a transpose was folded before it was merged.
    traced = kind == "operators"
    lora = lambda call, data, argument, path: node(
        "MatMul", [data, "permute_1"], [call], "node_" + call,
        meta={**scopes(path), **(fx(call, "matmul", f"%{data}, %{argument}") if traced else {})})
    linear = fx("linear", "linear", "%e, %p_up_weight, %p_up_bias") if traced else {}
    down = fx("linear_1", "linear", "%f, %p_down_weight, %p_down_bias")
    data = model(graph(
        [
            norm("x", "n1.weight", "n1.bias", "a", "n1", "%p_n1_weight, %p_n1_bias", traced),
            norm("a", "n1.weight", None, "b", "free", "None, None", traced),
            norm("b", "n1.weight", "n1.bias", "c", "n2", "%p_n2_weight, %p_n2_bias", traced),
            lora("d", "c", "permute_1", "q"),
            lora("e", "d", "permute_3", "k"),
            node("MatMul", ["e", "val_7"], ["f0"], "node_up", meta={**scopes("up"), **linear}),
            node("Add", ["f0", "n1.bias"], ["f"], "node_up_bias", meta={**scopes("up"), **linear}),
            node("Gemm", ["f", "down.weight"], ["out"], "node_down", meta={**scopes("down"), **down}, transB=1),
        ],
        x, out,
        [vector("n1.weight", ones), vector("n1.bias", zeros), matrix("permute_1", zeros),
         tensor("val_7", [4, 4], raw=floats(16)), tensor("down.weight", [4, 4], raw=floats(16))],
        [folded("permute_1", [4, 4], "q.B"), folded("val_7", [4, 4], "up.weight")],
        signature("n1.weight", "n1.bias", "n2.weight", "n2.bias", "q.B", "k.B", "up.weight", "up.bias",
                  "down.weight", "down.bias"),
    ))
elif kind == "common":
    # Two norms of one value, of which the optimizer has left one; a module of
    # which the graph has a part, and one that starts with other numbers.
    data = model(graph(
        [norm("x", "n1.weight", "n1.bias", "a", "n1", "%p_n1_weight, %p_n1_bias"),
         node("MatMul", ["a", "up.weight"], ["out"], "node_up", meta=scopes("up"))],
        x, out,
        [vector("n1.weight", ones), vector("n1.bias", zeros), tensor("up.weight", [4, 4], raw=floats(16))],
        [],
        signature("n1.weight", "n1.bias", "n2.weight", "n2.bias", "up.weight", "up.bias", "down.weight"),
    ))
elif kind == "calls":
    # The same, where the program says that the product has read the other.
    data = model(graph(
        [norm("x", "n1.weight", "n1.bias", "layer_norm", "n1", "%p_n1_weight, %p_n1_bias"),
         node("Tanh", ["layer_norm"], ["t"], "node_t", meta={**scopes(), **fx("t", "tanh", "%layer_norm")}),
         node("MatMul", ["layer_norm", "up.weight"], ["mm"], "node_up",
              meta={**scopes("up"), **fx("mm", "linear", "%layer_norm_1, %p_up_weight")}),
         node("Mul", ["layer_norm", "layer_norm"], ["sq"], "node_sq",
              meta={**scopes(), **fx("sq", "mul", "%layer_norm_1, %layer_norm_1")}),
         node("Sub", ["layer_norm", "layer_norm"], ["d"], "node_d",
              meta={**scopes(), **fx("d", "sub", "%layer_norm, %layer_norm_1")}),
         node("Sum", ["t", "mm", "sq", "d"], ["out"], "node_out", meta=scopes())],
        x, out,
        [vector("n1.weight", ones), vector("n1.bias", zeros), tensor("up.weight", [4, 4], raw=floats(16))],
        [], signature("n1.weight", "n1.bias", "n2.weight", "n2.bias", "up.weight"),
    ))
elif kind == "chain":
    # What reads both norms was merged, too: with which of them, nothing says.
    data = model(graph(
        [norm("x", "n1.weight", "n1.bias", "layer_norm", "n1", "%p_n1_weight, %p_n1_bias"),
         node("Mul", ["layer_norm", "layer_norm"], ["mul"], "node_mul",
              meta={**scopes(), **fx("mul", "mul", "%layer_norm, %layer_norm_1")}),
         node("Tanh", ["layer_norm"], ["t"], "node_t", meta={**scopes(), **fx("t", "tanh", "%layer_norm_1")}),
         node("MatMul", ["mul", "up.weight"], ["mm"], "node_up",
              meta={**scopes("up"), **fx("mm", "linear", "%mul_1, %p_up_weight")}),
         node("Sum", ["t", "mm", "mul"], ["out"], "node_out", meta=scopes())],
        x, out,
        [vector("n1.weight", ones), vector("n1.bias", zeros), tensor("up.weight", [4, 4], raw=floats(16))],
        [], signature("n1.weight", "n1.bias", "n2.weight", "n2.bias", "up.weight"),
    ))
elif kind == "unclear":
    # Two scales of one module, both folded and merged: which is which?
    mul = lambda call, data, argument: node(
        "Mul", [data, "add_1"], [call], "node_" + call, meta={**scopes("g"), **fx(call, "mul", f"%{data}, %{argument}")})
    data = model(graph(
        [mul("a", "x", "add_1"),
         node("Mul", ["a", "add_1"], ["b"], "node_b", meta={**scopes("other"), **fx("b", "mul", "%a, %add_2")}),
         mul("out", "b", "add_3")],
        x, out, [vector("add_1", ones)], [folded("add_1", [4], "g.one")],
        signature("g.one", "h.one", "i.one"),
    ))
elif kind in ("matrix", "tied-matrix"):
    # A matrix that two layers transpose: one that they share, or two that
    # started equal. The author's word tells.
    product = lambda call, data, argument, path: node(
        "MatMul", ["t", data], [call], "node_" + call,
        meta={**scopes(path), **fx(call, "matmul", f"%{argument}, %{data}")})
    word = {"shardonnx.module": '{"version":1,"parameters":[{"names":["a.mix","b.mix"],"requires_grad":true}]}'}
    data = model(graph(
        [product("y", "x", "t", "a"), product("out", "y", "t_1", "b")],
        x, out, [tensor("t", [2, 2], raw=floats(4))], [folded("t", [2, 2], "a.mix")],
        signature("a.mix", "b.mix"),
    ), meta=word if kind == "tied-matrix" else {})
elif kind == "legacy":
    # An Identity for each name; `q_1` is the second call of `q`.
    data = model(graph(
        [
            node("Identity", ["n1.weight"], ["n2.weight"], "Identity_3"),
            node("Identity", ["onnx::MatMul_8"], ["onnx::MatMul_9"], "Identity_4"),
            node("Identity", ["onnx::MatMul_8"], ["onnx::MatMul_10"], "Identity_5"),
            node("Mul", ["x", "n1.weight"], ["a"], "/n1/Mul"),
            node("Mul", ["a", "n2.weight"], ["b"], "/n2/Mul"),
            node("Mul", ["b", "n2.weight"], ["c"], "/n2_1/Mul"),
            node("MatMul", ["c", "onnx::MatMul_8"], ["d"], "/q/MatMul"),
            node("MatMul", ["d", "onnx::MatMul_9"], ["e"], "/q_1/MatMul"),
            node("MatMul", ["e", "onnx::MatMul_10"], ["f"], "/k/MatMul"),
            node("Mul", ["f", "onnx::Mul_11"], ["g"], "/n3/Mul"),
            node("Mul", ["g", "scale"], ["out"], "/Mul"),
        ],
        x, out,
        [vector("n1.weight", ones), tensor("onnx::MatMul_8", [4, 4], raw=floats(16)),
         vector("onnx::Mul_11", ones), tensor("scale", [1], raw=ones)],
    ), producer="pytorch")
elif kind in ("paths", "nothing"):
    # The Identities are gone; or all is gone.
    name = (lambda path: path) if kind == "paths" else (lambda path: "node_" + path.split("/")[1])
    data = model(graph(
        [
            node("Mul", ["x", "n1.weight"], ["a"], name("/n1/Mul")),
            node("Mul", ["a", "n1.weight"], ["b"], name("/n1_1/Mul")),
            node("Mul", ["b", "n1.weight"], ["out"], name("/n2/Mul")),
        ],
        x, out, [vector("n1.weight", ones)],
    ))
elif kind == "annotated":
    # What models/shardonnx_export.py writes.
    data = model(graph(
        [
            node("Mul", ["x", "base"], ["a"], "/Mul"),
            node("Mul", ["a", "adapter"], ["b"], "/Mul_1"),
            node("Mul", ["b", "mine"], ["out"], "/Mul_2"),
        ],
        x, out,
        [tensor("base", [4], raw=floats(4)), tensor("adapter", [4], raw=floats(4)), tensor("mine", [4], raw=floats(4))],
    ), meta={"shardonnx.module": '{"version":1,"parameters":[{"names":["base"],"requires_grad":false},'
             '{"names":["adapter","head.adapter"],"requires_grad":true},{"names":["unused"]}],'
             '"buffers":["mine"],"dropout":{"h.drop":0.1}}'})
elif kind == "lost":
    # The author's word, of a file that the older exporter has folded.
    data = model(graph(
        [node("Add", ["x", "onnx::Add_4"], ["a"], "/Add"), node("Mul", ["a", "w"], ["out"], "/Mul")],
        x, out, [vector("w", ones), vector("onnx::Add_4", ones)],
    ), meta={"shardonnx.module": '{"version":1,"parameters":[{"names":["w"],"requires_grad":true},'
             '{"names":["wpe"],"requires_grad":true}],"buffers":[],"dropout":{}}'})
elif kind == "inputs":
    # One tensor was given to two inputs.
    data = model(graph(
        [node("Mul", ["y", "w"], ["a"], "node_mul"), node("Add", ["a", "y"], ["out"], "node_add")],
        [value("x", [2, 4]), value("y", [2, 4])], out, [vector("w", ones)], [], signature("w")))

write(data)
