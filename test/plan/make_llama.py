# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The graph of a Llama: grouped queries, RMS norms, rotary positions, a gated
# feed-forward layer. As in make_mpt.py, without PyTorch and without weights.
#
#   make_llama.py MODEL SEQ OUT.onnx      MODEL: one of MODELS

import sys

import numpy as np

from make_mpt import Graph

# layers, width, heads, heads of keys and values, feed-forward, vocabulary,
# whether the head is tied to the embedding
MODELS = {
    "llama2-7b": (32, 4096, 32, 32, 11008, 32000, False),
    "llama2-13b": (40, 5120, 40, 40, 13824, 32000, False),
    "llama2-34b": (48, 8192, 64, 8, 22016, 32000, False),
    "llama2-70b": (80, 8192, 64, 8, 28672, 32000, False),
    "llama3-8b": (32, 4096, 32, 8, 14336, 128256, False),
    "llama3-13b": (40, 5120, 40, 8, 17920, 128256, False),
    "llama3-70b": (80, 8192, 64, 8, 28672, 128256, False),
    "llama3-405b": (126, 16384, 128, 8, 53248, 128256, False),
    "smollm3-3b": (36, 2048, 16, 4, 11008, 128256, True),
}


def build(name, seq):
    layers, width, heads, kv_heads, hidden, vocabulary, tied = MODELS[name]
    size = width // heads
    g = Graph()
    table = g.weight("embed_tokens.weight", vocabulary, width)
    x = g.add("Gather", table, "input_ids")
    angles = np.outer(np.arange(seq), 5e5 ** (-2 * np.arange(size // 2) / size))
    cos = g.constant("cos", np.cos(angles))
    sin = g.constant("sin", np.sin(angles))
    g.constant("positions", np.arange(seq)[None])

    def norm(x, scope):
        return g.add("RMSNormalization", x, g.weight(scope + ".weight", width), epsilon=1e-5)

    def linear(x, scope, rows, columns):
        return g.add("MatMul", x, g.add("Transpose", g.weight(scope + ".weight", columns, rows), perm=[1, 0]))

    for layer in range(layers):
        g.scope = block = f"layers.{layer}"
        h = norm(x, block + ".input_layernorm")
        q = linear(h, block + ".q_proj", width, width)
        k = linear(h, block + ".k_proj", width, kv_heads * size)
        v = linear(h, block + ".v_proj", width, kv_heads * size)
        q = g.add("RotaryEmbedding", q, cos, sin, "positions", num_heads=heads)
        k = g.add("RotaryEmbedding", k, cos, sin, "positions", num_heads=kv_heads)
        context = g.add("Attention", q, k, v, is_causal=1, q_num_heads=heads, kv_num_heads=kv_heads)
        x = g.add("Add", x, linear(context, block + ".o_proj", width, width))
        h = norm(x, block + ".post_attention_layernorm")
        gate = linear(h, block + ".gate_proj", width, hidden)
        gate = g.add("Mul", gate, g.add("Sigmoid", gate))
        up = linear(h, block + ".up_proj", width, hidden)
        x = g.add("Add", x, linear(g.add("Mul", gate, up), block + ".down_proj", hidden, width))
    g.scope = "norm"
    x = norm(x, "norm")
    g.scope = "lm_head"
    if tied:
        g.add("MatMul", x, g.add("Transpose", table, perm=[1, 0]))
    else:
        linear(x, "lm_head", width, vocabulary)
    return g.model(name, seq, vocabulary)


if __name__ == "__main__":
    name, seq, path = sys.argv[1:]
    with open(path, "wb") as out:
        out.write(build(name, int(seq)).SerializeToString())
