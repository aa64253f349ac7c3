# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a bundle holds: tiny models that are checked, large ones measured."""

from collections import namedtuple

BF16 = ("--param-dtype=bf16", "--reduce-dtype=f32")
# Compile options by what a large model computes in; peer.py's --precision.
PRECISIONS = {
    "f32": (), "bf16": BF16, "fp8": (*BF16, "--matmul-dtype=fp8"),
    "fp8:rowwise": (*BF16, "--matmul-dtype=fp8:rowwise"),
}

# Tiny models, weights included: the project's recorded training runs. `cases`
# are recordings by precision, `programs` compile options by name.
Check = namedtuple("Check", "name model cases programs")

EVERY_PROGRAM = {
    "full_shard": (), "bf16": BF16, "strict": ("--strict-numerics",),
    "shard_grad_op": ("--strategy=shard_grad_op",),
    "no_shard": ("--strategy=no_shard",),
}
CHECKS = [
    Check("gpt2", "gpt2-18", {"f32": "gpt2-18", "bf16": "gpt2-bf16"},
          EVERY_PROGRAM),
    Check("llama", "llama-23", {"f32": "llama-23", "bf16": "llama-bf16"},
          EVERY_PROGRAM),
    Check("smollm3", "smollm3-18", {"f32": "smollm3-18"},
          {"full_shard": ()}),
]

# Packed documents, of which cuDNN takes all, or only those of some samples.
PACKED = (*BF16, "--document-separator=10")
DOCUMENTS = [
    Check("llama", "llama-long", {"bf16": "llama-documents-bf16"},
          {"all": (*PACKED, "--max-documents=200"),
           "some": (*PACKED, "--max-documents=6")}),
]

# Products of 8 bits, however small, with what torch's own float8 recorded.
EIGHT_BITS = [
    Check("llama", "llama-sixteens",
          {"fp8": "llama-fp8", "fp8-rowwise": "llama-fp8-rowwise"},
          {"fp8": ("--matmul-dtype=fp8", "--matmul-gain=0"),
           "fp8-rowwise": ("--matmul-dtype=fp8:rowwise", "--matmul-gain=0")}),
]

# `peers`: modes of peer.py. `limit`: seconds for the whole row. `start`: its
# time to start is measured, too.
Work = namedtuple("Work", "name title preset shape batch seq precision "
                  "recompute steps peers limit start")

MODES = ("eager", "compile", "fsdp2", "fsdp2-compile")


def large(name, title, preset, batch, seq, recompute, limit, steps=25,
          start=False, precision="bf16", peers=MODES):
    return Work(name, title, preset, "", batch, seq, precision, recompute,
                steps, peers, limit, start)


CUDA_WORK = [
    large("gpt2-124m", "GPT-2 124M", "gpt2-124m", 32, 1024, "none", 540,
          steps=60, start=True),
    large("gpt2-1.5b", "GPT-2 1.5B", "gpt2-1.5b", 16, 1024, "none", 560),
    large("gpt2-1.5b-block", "GPT-2 1.5B", "gpt2-1.5b", 16, 1024, "block",
          560),
    large("smollm3-3b-8192", "SmolLM3-3B", "smollm3-3b", 1, 8192, "none",
          560),
    large("smollm3-3b-8192-block", "SmolLM3-3B", "smollm3-3b", 1, 8192,
          "block", 560),
    large("smollm3-3b-4096-block", "SmolLM3-3B", "smollm3-3b", 4, 4096,
          "block", 560),
    # Without FSDP2 its experts' weights would be f32, whose grouped products
    # PyTorch computes one by one.
    large("qwen3-moe-1b", "Mixture of 32 experts, 1.3B", "qwen3-moe-1b", 8,
          2048, "none", 560, peers=("fsdp2-compile", "fsdp2")),
    # torchao, which the peers' 8 bits are of, knows no Conv1D of GPT-2. To
    # compile all of SmolLM3 with its products takes nearly five minutes.
    large("gpt2-1.5b-fp8", "GPT-2 1.5B", "gpt2-1.5b", 16, 1024, "none", 200,
          precision="fp8", peers=()),
    large("smollm3-3b-8192-fp8", "SmolLM3-3B", "smollm3-3b", 1, 8192, "none",
          560, precision="fp8", peers=("fsdp2-compile", "compile")),
    large("smollm3-3b-8192-fp8-rowwise", "SmolLM3-3B", "smollm3-3b", 1, 8192,
          "none", 560, precision="fp8:rowwise",
          peers=("fsdp2-compile", "compile")),
]

# The same rows at a size that a CPU trains in a moment.
TWIN_CHECKS = [CHECKS[0]._replace(programs={
    name: EVERY_PROGRAM[name]
    for name in ("full_shard", "bf16", "strict", "shard_grad_op", "no_shard")
}), CHECKS[2]]
TWIN_WORK = [
    Work("gpt2-small", "GPT-2 of 2 layers", "gpt2-small", "", 4, 128, "f32",
         "none", 8, ("eager",), 120, True),
]

# Ids below this are in every model's vocabulary.
SPEED_VOCABULARY = 49152
TWIN_VOCABULARY = 256
SPEED_TOKENS = 1 << 20
