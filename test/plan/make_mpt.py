# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The graph of an MPT model as llm-foundry trains it: learned positions, GELU,
# biases, a head that is tied to the embedding. No PyTorch, and no weights: they
# are external data of a file that nobody has to have.
#
#   make_mpt.py LAYERS WIDTH HEADS SEQ OUT.onnx [tanh]
#
# tanh: with that form of GELU, as GPT-2 has it, which products compute.

import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

VOCABULARY = 50368


class Graph:
    def __init__(self):
        self.nodes, self.initializers, self.offset, self.scope = [], [], 0, ""

    def weight(self, name, *shape):
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        size = 4
        for length in shape:
            size *= length
        for key, value in (("location", "absent"), ("offset", str(self.offset)), ("length", str(size))):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
        tensor.data_location = TensorProto.EXTERNAL
        self.offset += size
        self.initializers.append(tensor)
        return name

    def constant(self, name, values):
        array = np.asarray(values)
        array = array.astype(np.int64 if array.dtype.kind == "i" else np.float32)
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        node = helper.make_node(op, list(inputs), [name], name=f"n{len(self.nodes)}", **attributes)
        entry = node.metadata_props.add()
        entry.key = "pkg.torch.onnx.name_scopes"
        scopes = [""]
        for part in self.scope.split(".") if self.scope else []:
            scopes.append(f"{scopes[-1]}.{part}".strip("."))
        entry.value = str(scopes + [name])
        self.nodes.append(node)
        return name

    def model(self, name, seq, vocabulary):
        """What has been added, from token ids to the logits that came last."""
        self.nodes[-1].output[0] = "logits"
        inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", seq])]
        outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", seq, vocabulary])]
        graph = helper.make_graph(self.nodes, name, inputs, outputs, self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


def build(layers, width, heads, seq, gelu="none"):
    g = Graph()
    table = g.weight("wte.weight", VOCABULARY, width)
    x = g.add("Add", g.add("Gather", table, "input_ids"), g.weight("wpe.weight", seq, width))
    split = g.constant("split", [width] * 3)

    def norm(x, name):
        return g.add("LayerNormalization", x, g.weight(name + ".weight", width), g.weight(name + ".bias", width))

    def linear(x, name, rows, columns):
        product = g.add("MatMul", x, g.weight(name + ".weight", rows, columns))
        return g.add("Add", product, g.weight(name + ".bias", columns))

    for layer in range(layers):
        g.scope = block = f"blocks.{layer}"
        qkv = linear(norm(x, block + ".norm_1"), block + ".attn.Wqkv", width, 3 * width)
        names = [f"{part}{layer}" for part in ("query", "key", "value")]
        g.add("Split", qkv, split, axis=-1)
        del g.nodes[-1].output[:]
        g.nodes[-1].output.extend(names)
        context = g.add("Attention", *names, is_causal=1, q_num_heads=heads, kv_num_heads=heads)
        x = g.add("Add", x, linear(context, block + ".attn.out_proj", width, width))
        up = linear(norm(x, block + ".norm_2"), block + ".ffn.up_proj", width, 4 * width)
        up = g.add("Gelu", up, approximate=gelu)
        x = g.add("Add", x, linear(up, block + ".ffn.down_proj", 4 * width, width))
    g.scope = "norm_f"
    x = norm(x, "norm_f")
    g.scope = "lm_head"
    g.add("MatMul", x, g.add("Transpose", table, perm=[1, 0]))
    return g.model("mpt", seq, VOCABULARY)


if __name__ == "__main__":
    sizes, path, gelu = sys.argv[1:5], sys.argv[5], sys.argv[6:]
    with open(path, "wb") as out:
        out.write(build(*map(int, sizes), *gelu).SerializeToString())
