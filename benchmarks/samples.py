#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes what programs without PyTorch are fed, in the environment that
models/make_env makes.

    samples.py PRESET FILE.npz      the samples of a model that takes more
                                    than tokens
    samples.py PRESET FILE.gpt2     the weights of a GPT-2, for gpt2.c
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "models"))

import numpy

import export

# Of a layer, in gpt2.c's order; the second word: stored [in, out].
LAYER = (("ln_1", False), ("attn.c_attn", True), ("attn.c_proj", True),
         ("ln_2", False), ("mlp.c_fc", True), ("mlp.c_proj", True))


def gpt2_arrays(model):
    state = {name: value.numpy() for name, value in
             model.transformer.state_dict().items()}
    yield from (state["wte.weight"], state["wpe.weight"])
    for layer in range(model.config.n_layer):
        for name, turned in LAYER:
            weight = state[f"h.{layer}.{name}.weight"]
            yield weight.T if turned else weight
            yield state[f"h.{layer}.{name}.bias"]
    yield from (state["ln_f.weight"], state["ln_f.bias"])


def write_gpt2(model, path):
    config = model.config
    with open(path, "wb") as file:
        file.write(numpy.array(
            [config.n_layer, config.n_embd, config.n_head, config.vocab_size,
             config.n_positions], "<i4").tobytes())
        for array in gpt2_arrays(model):
            file.write(numpy.ascontiguousarray(array, "<f4").tobytes())


if __name__ == "__main__":
    preset, path = sys.argv[1:]
    options = export.parse([preset])
    if path.endswith(".gpt2"):
        write_gpt2(export.build(options), path)
    else:
        numpy.savez(path, **export.samples_of(options))
