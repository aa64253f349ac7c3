# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs on meshes: cases with options of the compiler, ranks, and options of the
run. run_cases.py runs them."""

import cases

# Ranks that compute the same samples together, in every strategy, recomputation
# and accumulation once, and in the architectures that split differently.
MESH_MATRIX = [("llama-23-optimized", ["--mesh=tensor:2", *extra], ranks, words)
               for extra, ranks, words in (
    ([], 2, []),
    (["--recompute=selective"], 4, []),
    (["--strategy=no_shard", "--recompute=block"], 4, []),
    (["--strategy=shard_opt", "--accumulate-mode=unsharded"], 4, []),
    (["--strategy=shard_grad_op", "--recompute=every:2"], 4, []),
    (["--strategy=hybrid_shard", "--recompute=block"], 4, ["--replicas=2"]),
    (["--strategy=hybrid_shard_zero2"], 2, []),
    ([cases.config("units.json")], 4, []))] + [
    ("gpt2-18", ["--mesh=tensor:3"], 3, []),
    ("gpt2-eager", ["--mesh=tensor:3", "--recompute=selective"], 3, []),
    ("gpt2-bf16", ["--mesh=tensor:3"], 3, []),
    ("smollm3-18", ["--mesh=tensor:2"], 4, []),
    ("llama-tied-static", ["--mesh=tensor:2"], 4, []),
    ("llama-bf16", ["--mesh=tensor:2"], 2, []),
    ("llama-eight-batch", ["--mesh=tensor:2"], 4, []),
    ("regressor", ["--mesh=tensor:2"], 4, []),
    ("classifier", ["--mesh=tensor:2"], 2, []),
    ("gpt2-eight", ["--mesh=tensor:4"], 4, []),
    ("qwen3-eight", ["--mesh=tensor:4", "--recompute=block"], 8, []),
    ("gemma3-eight", ["--mesh=tensor:4"], 4, []),
    ("bert", ["--mesh=tensor:2"], 4, []),
    ("t5", ["--mesh=tensor:2"], 2, []),
    ("qwen3-moe", ["--mesh=tensor:2"], 2, []),
    ("gpt-oss", ["--mesh=tensor:2"], 2, []),
    ("gpt2-lora", ["--mesh=tensor:3"], 3, []),
    ("llama-lora", ["--mesh=tensor:2", "--recompute=block"], 4, []),
    ("llama-lora-dropout", ["--mesh=tensor:2"], 4, []),
    ("llama-dora", ["--mesh=tensor:2"], 2, []),
    ("mixtral-lora", ["--mesh=tensor:2"], 2, []),
    ("bert-lora", ["--mesh=tensor:2"], 2, []),
    ("t5-lora", ["--mesh=tensor:2"], 2, []),
    ("gpt2-lora-int8", ["--mesh=tensor:3"], 3, []),
    ("gpt2-lora-muon", ["--mesh=tensor:3"], 3, []),
    ("gpt2-fp8", ["--mesh=tensor:3", "--recompute=block"], 3, []),
    ("llama-fp8", ["--mesh=tensor:2"], 4, []),
    ("llama-fp8-rowwise", ["--mesh=tensor:2"], 2, []),
    ("gpt2-muon", ["--mesh=tensor:3"], 3, []),
    ("gpt2-muon", ["--mesh=tensor:3", "--strategy=hybrid_shard"], 6,
     ["--replicas=2"]),
    ("llama-muon", ["--mesh=tensor:2", "--recompute=block"], 2, []),
    ("llama-muon", ["--mesh=tensor:2"], 4, []),
    ("llama-dora-muon", ["--mesh=tensor:2"], 2, []),
    ("llama-muon", ["--mesh=tensor:2", "--strategy=no_shard"], 4, []),
    ("llama-23-optimized", ["--mesh=tensor:2", "--strict-numerics"], 4, []),
    ("gpt2-18", ["--mesh=tensor:3", "--strict-numerics"], 3, [])]
# Ranks that each have a part of every sequence, alone and with that.
RING, ULYSSES, GATHER = (f"--context-attention={way}"
                         for way in ("ring", "ulysses", "all-gather"))
CONTEXT_MATRIX = [
    ("gpt2-eight", ["--mesh=context:2"], 4, []),
    ("llama-eight", ["--mesh=context:4", "--strategy=no_shard",
                     "--recompute=block"], 4, []),
    ("llama-eight-batch", ["--mesh=context:2", "--recompute=selective"], 2, []),
    ("llama-eight-documents", ["--mesh=context:2,tensor:2"], 4, []),
    ("qwen3-eight", ["--mesh=context:2,tensor:2"], 8, []),
    ("gemma3-eight", ["--mesh=context:4"], 4, []),
    ("gpt2-18", ["--mesh=context:4"], 4, []),
    ("gpt2-18", ["--mesh=context:4", GATHER], 4, []),
    ("gpt2-documents", ["--mesh=context:2", GATHER, "--recompute=block"], 4,
     []),
    ("gpt2-documents", ["--mesh=context:4", RING, "--recompute=selective"], 4,
     []),
    ("gpt2-eight", ["--mesh=context:2", RING], 4, []),
    ("llama-eight", ["--mesh=context:4", RING, "--recompute=block"], 4, []),
    ("llama-eight-batch", ["--mesh=context:2", RING], 2, []),
    ("llama-eight-documents", ["--mesh=context:2,tensor:2", RING], 4, []),
    ("qwen3-eight", ["--mesh=context:2,tensor:2", RING], 8, []),
    ("gemma3-eight", ["--mesh=context:4", RING], 4, []),
    ("bert", ["--mesh=context:4", RING], 4, []),
    ("gpt2-bf16", ["--mesh=context:4", RING], 4, []),
    ("gpt2-dropout-fused", ["--mesh=context:4", RING], 4, []),
    ("llama-lora-dropout", ["--mesh=context:2,tensor:2", RING], 4, []),
    ("mixtral", ["--mesh=context:4"], 4, []),
    ("qwen3-moe", ["--mesh=context:2", RING], 4, []),
    ("gpt-oss", ["--mesh=context:2", RING], 2, []),
    ("gpt-oss", ["--mesh=context:2", ULYSSES], 2, []),
    ("llama-23", ["--mesh=context:2,tensor:2"], 4, []),
    ("t5", ["--mesh=context:2,tensor:2"], 4, []),
    ("gpt2-dropout-fused", ["--mesh=context:2"], 4, []),
    ("llama-lora-dropout", ["--mesh=context:2,tensor:2"], 4, []),
    ("smollm3-18", ["--mesh=context:2"], 4, []),
    ("bert", ["--mesh=context:2"], 4, []),
    ("llama-muon", ["--mesh=context:2"], 4, []),
    ("llama-qlora", ["--mesh=context:2"], 2, []),
    ("llama-lora", ["--mesh=context:2"], 4, []),
    ("llama-fp8", ["--mesh=context:2,tensor:2"], 4, []),
    ("llama-fp8-rowwise", ["--mesh=context:2"], 4, [])]
# Groups of an axis inside of each of two machines, shards or replicas between.
MACHINES_MATRIX = [
    ("llama-23-optimized", ["--mesh=tensor:2"], 4, []),
    ("llama-23-optimized", ["--mesh=tensor:2", "--strategy=no_shard",
                            "--recompute=block"], 4, []),
    ("llama-18", ["--mesh=tensor:2"], 8, []),
    ("gpt2-18", ["--mesh=tensor:3", "--strategy=hybrid_shard"], 6, []),
    ("llama-muon", ["--mesh=tensor:2", "--strategy=hybrid_shard"], 4, []),
    ("llama-eight", ["--mesh=context:2", RING], 4, []),
    ("llama-eight-documents", ["--mesh=context:2,tensor:2", ULYSSES], 8, [])]
CORE_MACHINES = [
    ("llama-23-optimized", ["--mesh=tensor:2"], 4, []),
    ("llama-eight", ["--mesh=context:2", RING, "--strategy=hybrid_shard"], 4,
     [])]
# With `--matrix mesh` all of them, on one and on several shards, and every
# strategy.
CONTEXT_WHOLE = [(name, [f"--mesh={mesh}", way], ranks, [])
                 for way in (ULYSSES, RING)
                 for name in ("gpt2-eight", "llama-eight", "qwen3-eight",
                              "gemma3-eight", "llama-eight-documents")
                 for mesh, ranks in (("context:2", 2), ("context:2", 4),
                                     ("context:4", 4), ("context:4", 8),
                                     ("context:2,tensor:2", 4),
                                     ("context:2,tensor:2", 8))] + [
    ("llama-eight", ["--mesh=context:2", *extra], 4, words)
    for extra, words in (
        (["--strategy=shard_opt", "--accumulate-mode=unsharded"], []),
        (["--strategy=shard_grad_op", "--recompute=every:2"], []),
        (["--strategy=hybrid_shard", "--recompute=block"], ["--replicas=2"]),
        (["--strategy=hybrid_shard_zero2"], []),
        ([cases.config("units.json")], []))]

# Each axis of the mesh, and both.
CORE_MESH = [("llama-23-optimized", ["--mesh=tensor:2"], 4, []),
             ("gpt2-bf16", ["--mesh=tensor:3", "--strategy=no_shard"], 3, []),
             ("llama-eight", ["--mesh=context:2,tensor:2", ULYSSES], 4, []),
             ("llama-eight-documents", ["--mesh=context:2", RING], 2, []),
             ("llama-23-optimized", ["--mesh=tensor:2", "--strict-numerics"],
              2, []),
             ("gpt2-lora-int8", ["--mesh=tensor:3"], 3, [])]
# What runs beside the collectives of axes changes no bit.
OVERLAP_MATRIX = [("llama-23-optimized", ["--mesh=tensor:2"], 4),
                  ("llama-23-optimized", ["--mesh=tensor:2",
                                          "--recompute=block",
                                          "--axis-chunks=2"], 2),
                  ("llama-eight", ["--mesh=context:2", RING], 2),
                  ("llama-eight-batch",
                   ["--mesh=context:2,tensor:2", "--recompute=block"], 4)]
