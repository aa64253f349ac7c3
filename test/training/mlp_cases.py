# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs whose MLPs are computed in chunks. run_cases.py runs them."""

import cases

# The losses are those without chunks, but for the order of sums over tokens.
# What is rounded to few bits after such a sum is rounded otherwise.
RTOL = 1e-6
# Gates and biases, in each recomputation, accumulation and axis once.
MLP_MATRIX = [
    ("gpt2-18", ["--mlp-chunks=2"], 3, []),
    ("gpt2-18", ["--mlp-chunks=4", "--recompute=selective"], 2, []),
    ("llama-23-optimized", ["--mlp-chunks=2", "--recompute=block"], 3, []),
    ("llama-23-optimized", ["--mlp-chunks=4", "--strategy=shard_opt",
                            "--accumulate-mode=unsharded"], 4, []),
    ("llama-23-optimized", ["--mlp-chunks=2", "--recompute=every:2",
                            "--strategy=hybrid_shard"], 4, ["--replicas=2"]),
    ("llama-23-optimized", ["--mlp-chunks=2", "--recompute=budget:285KB"], 2,
     []),
    ("llama-23-optimized", ["--mlp-chunks=auto"], 2, []),
    ("gpt2-18", ["--mlp-chunks=2", cases.config("units.json")], 3, []),
    ("smollm3-18", ["--mlp-chunks=4"], 2, []),
    ("llama-tied-static", ["--mlp-chunks=2"], 2, []),
    ("bert", ["--mlp-chunks=2"], 2, []),
    ("t5", ["--mlp-chunks=2", "--recompute=block"], 2, []),
    ("llama-lora-dropout", ["--mlp-chunks=2"], 3, []),
    ("llama-dora", ["--mlp-chunks=2", "--recompute=block"], 2, []),
    ("gpt2-lora-int8", ["--mlp-chunks=2"], 2, []),
    ("gpt2-dropout-fused", ["--mlp-chunks=2"], 2, []),
    ("llama-bf16", ["--mlp-chunks=2"], 2, []),
    ("gpt2-muon", ["--mlp-chunks=2"], 2, []),
    ("gpt2-18", ["--mlp-chunks=2", "--mesh=tensor:3"], 3, []),
    ("llama-23-optimized", ["--mlp-chunks=2", "--mesh=tensor:2",
                            "--recompute=block"], 4, []),
    ("llama-eight", ["--mlp-chunks=2", "--mesh=context:2",
                     "--context-attention=ring"], 4, []),
    ("llama-eight-documents", ["--mlp-chunks=2", "--recompute=block",
                               "--mesh=context:2,tensor:2"], 4, [])]
CORE_MLPS = [
    ("gpt2-18", ["--mlp-chunks=2", "--recompute=block"], 2, []),
    ("gpt2-bf16", ["--mlp-chunks=2"], 2, []),
    ("llama-23-optimized", ["--mlp-chunks=4"], 2, []),
    ("gpt2-lora-int8", ["--mlp-chunks=2"], 1, []),
    ("llama-eight", ["--mlp-chunks=2", "--mesh=context:2,tensor:2",
                     "--recompute=block"], 4, [])]
# With and without chunks.
MLP_SAME = [("gpt2-18", []), ("gpt2-18", ["--recompute=block"]),
            ("llama-23-optimized", ["--recompute=selective"]),
            ("llama-23-optimized", ["--mesh=tensor:2"])]
