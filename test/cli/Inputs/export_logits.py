# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints whether an exported gpt2-small gives the same logits in ONNX Runtime and, as a state dict, in transformers."""

import shutil
import sys
import tempfile

try:
    import numpy
    import onnxruntime
    import torch
    from safetensors.torch import load_file
    from transformers import GPT2Config, GPT2LMHeadModel
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit()

graph, state = sys.argv[1:]
tensors = load_file(state)
vocabulary, hidden = tensors["transformer.wte.weight"].shape
positions = tensors["transformer.wpe.weight"].shape[0]
layers = len({name.split(".")[2] for name in tensors if name.startswith("transformer.h.")})
config = GPT2Config(vocab_size=vocabulary, n_embd=hidden, n_layer=layers, n_head=3, n_positions=positions, bos_token_id=0, eos_token_id=0)
with tempfile.TemporaryDirectory() as folder:
    config.save_pretrained(folder)
    shutil.copy(state, f"{folder}/model.safetensors")
    model, loading = GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
assert not loading["missing_keys"] and not loading["unexpected_keys"], loading
ids = numpy.random.default_rng(0).integers(0, vocabulary, (2, positions))
ours = onnxruntime.InferenceSession(graph).run(None, {"input_ids": ids})[0]
with torch.no_grad():
    theirs = model.eval()(torch.tensor(ids)).logits.numpy()
difference = abs(ours - theirs).max() / abs(theirs).max()
print("equal" if difference < 1e-5 else f"they differ by {difference}")
