# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What benchmarks/run trains, and who trains it.

A new workload is a preset of models/export.py and a line here; a new contender
is a mode of peer.py, or options of our compiler, and a line here.
"""

import collections

# `samples`: of a step and rank. `unit`: what is counted in a second, of which
# each sample has `length`. `vocabulary`: of the tokens; None where the samples
# are the architecture's own. `steps` of a round, the first `warm_up` of which
# are not counted: large models take long, and warm up no longer.
Workload = collections.namedtuple(
    "Workload", "title preset samples unit length vocabulary steps warm_up "
    "lora peers", defaults=(None, ()))

# The peers of a workload unless others are asked for.
ALL = ("eager", "compile", "eager-bf16", "compile-bf16", "ddp", "fsdp2")
ONE_PROCESS = ("eager", "compile", "eager-bf16")

WORKLOADS = {
    "w1": Workload("W1: GPT-2, 6 layers, 384, 6 heads", "w1", 4, "tokens",
                   256, 8192, 10, 3, peers=(*ALL, "plain-c")),
    "w2": Workload("W2: Llama, 6 layers, 512, ffn 1376, 8/4 heads", "w2", 4,
                   "tokens", 256, 8192, 10, 3, peers=ALL),
    "w2-lora": Workload("W2 with LoRA of rank 16 on a frozen base, beside "
                        "PEFT's", "w2", 4, "tokens", 256, 8192, 10, 3,
                        lora=16, peers=("eager",)),
    "w3": Workload("W3: Llama 110M, 12 layers, 768, ffn 2048, 12 heads", "w3",
                   2, "tokens", 512, 32000, 6, 2, peers=ONE_PROCESS),
    "w4": Workload("W4: BERT-base, masked words, sequences of 128", "w4", 8,
                   "tokens", 128, None, 6, 2, peers=ONE_PROCESS),
    "w5": Workload("W5: ViT-small, pictures of 224 x 224", "w5", 8,
                   "pictures", 1, None, 6, 2, peers=ONE_PROCESS),
}

# `mode` is peer.py's; None: our executable; C: gpt2.c.
C = "c"
Contender = collections.namedtuple("Contender", "mode ranks dtype")
CONTENDERS = {
    "shardonnx-1": Contender(None, 1, "f32"),
    "eager": Contender("eager", 1, "f32"),
    "compile": Contender("compile", 1, "f32"),
    "plain-c": Contender(C, 1, "f32"),
    "shardonnx-1-bf16": Contender(None, 1, "bf16"),
    "eager-bf16": Contender("eager", 1, "bf16"),
    "compile-bf16": Contender("compile", 1, "bf16"),
    "shardonnx-2": Contender(None, 2, "f32"),
    "ddp": Contender("ddp", 2, "f32"),
    "fsdp2": Contender("fsdp2", 2, "f32"),
    "fsdp2-compile": Contender("fsdp2-compile", 2, "f32"),
    "shardonnx-2-bf16": Contender(None, 2, "bf16"),
    "fsdp2-bf16": Contender("fsdp2", 2, "bf16"),
}
BF16 = ("--param-dtype=bf16", "--reduce-dtype=f32")

# Ours, theirs, and what is asked: times the speed, times the memory at most.
Ratio = collections.namedtuple("Ratio", "ours theirs speed memory",
                               defaults=(None,))
LORA_RATIOS = [Ratio("shardonnx-1", "eager", 1.5, 0.35)]


def ours(name):
    return CONTENDERS[name].mode is None


def trains(name, workload):
    """Whether a contender can: plain C is written for GPT-2."""
    return CONTENDERS[name].mode != C or name in WORKLOADS[workload].peers


def compile_words(workload, name):
    """The options of `shardonnx compile` for one of our contenders."""
    words = BF16 if CONTENDERS[name].dtype == "bf16" else ()
    lora = WORKLOADS[workload].lora
    return (*words, *([f"--lora={lora}"] if lora else []))


def chosen(workload, wanted):
    """The contenders of a workload in the order of their turns."""
    work = WORKLOADS[workload]
    has = {CONTENDERS[peer].ranks for peer in work.peers}
    # bf16 of ours beside a bf16 of theirs, two ranks beside two.
    default = [name for name, (_, ranks, dtype) in CONTENDERS.items()
               if name in work.peers or (
                   ours(name) and ranks in has
                   and (ranks, dtype) != (2, "bf16"))]
    return [name for name in CONTENDERS if name in (wanted or default)]


def ratios(workload, bf16_products, equal_products):
    """The bars of a workload on a machine that multiplies bf16 or does not,
    where PyTorch's f32 products are as fast as ours or not."""
    if WORKLOADS[workload].lora:
        return LORA_RATIOS
    wide = 1.6 if bf16_products else 1.0
    return [
        Ratio("shardonnx-1", "eager", 1.4 if equal_products else 1.7, 0.3),
        Ratio("shardonnx-1", "compile", 1.4 if equal_products else 1.6),
        Ratio("shardonnx-1-bf16", "shardonnx-1", wide),
        Ratio("shardonnx-1-bf16", "eager-bf16", 1.5 if bf16_products else
              None),
        Ratio("shardonnx-1-bf16", "compile-bf16", 1.5 if bf16_products else
              None),
        Ratio("shardonnx-2", "ddp", 1.3),
        Ratio("shardonnx-2", "fsdp2", 2.0, 0.25),
        Ratio("shardonnx-2", "shardonnx-1", 0.95),
        Ratio("shardonnx-2-bf16", "fsdp2-bf16", None),
    ]
