# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which graphs are exported of which architecture, and how they are trained.

Read by record.py (PyTorch, ONNX Runtime) and run.py (Shardonnx; Python's
standard library and numpy). A variant is named ARCHITECTURE-OPSET-ATTENTION,
with `-folded` where the exporter's optimizer ran, and what else is special.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "models"))

import architectures

OPSETS = (18, 23)
STEPS = 20
GLOBAL_BATCH = 12
# Samples per rank and microbatch of a training run, and of a forward one.
BATCH = 3

# Weights wide enough, and norms and biases apart from 1 and 0, so that a wrong
# mask or scale shows in the loss.
COMMON = "tiny --spread 0.12 --jitter 0.1 --seed 1"

# Special graphs: name -> words of export.py. Each is made at one opset of each
# attention, in turn, of the architectures that have it.
SPECIAL = {
    "labels": "--labels",
    "mask": "--attention-mask",
    "positions": "--position-ids",
    "static": "--batch 3",
    "dynamic": "--seq dynamic",
    "legacy": "--legacy",
}

# Bars: the forward pass against ONNX Runtime, relative to the largest logit
# where that is above one; losses against PyTorch.
FORWARD_TOLERANCE = 1e-4
LOSS_RTOL = 2e-4


def variants(pattern=lambda name: True):
    """Variant name -> words of export.py."""
    made = {}
    for name, architecture in architectures.ARCHITECTURES.items():
        for opset in OPSETS:
            for attention in architecture.attention:
                words = (f"{COMMON} --architecture {name} --opset {opset} "
                         f"--attention {attention}")
                made[f"{name}-{opset}-{attention}"] = words
                made[f"{name}-{opset}-{attention}-folded"] = (
                    words + " --optimize")
        for i, (special, more) in enumerate(SPECIAL.items()):
            tokens = special in ("mask", "positions", "dynamic")
            if tokens if architecture.samples else special == "legacy":
                continue
            opset = 18 if special == "legacy" else OPSETS[i % 2]
            attention = architecture.attention[-1]
            folded = i % 3 == 0
            key = f"{name}-{opset}-{attention}{'-folded' * folded}-{special}"
            made[key] = (f"{COMMON} --architecture {name} --opset {opset} "
                         f"--attention {attention} {more}"
                         + " --optimize" * folded)
    return {name: words for name, words in made.items() if pattern(name)}


def architecture_of(name):
    return name.split("-")[0]


# What the repository holds, recorded, at half the width: each thing that an
# architecture has of its own, at both opsets, folded or not.
SHIPPED = ("mistral-23-sdpa-folded", "qwen3-18-eager",
           "gemma2-18-eager-folded", "gemma3-23-sdpa-folded", "phi3-18-sdpa",
           "opt-23-sdpa-folded", "gpt_neox-18-sdpa-folded",
           "bloom-23-eager-folded", "falcon-18-sdpa-folded", "granite-18-eager",
           "cohere-23-eager-folded", "glm-18-sdpa", "gptj-23-eager-folded",
           "gpt_neo-18-eager", "modernbert-23-sdpa-folded", "albert-18-sdpa",
           "deepseek_v3-18-sdpa", "gpt_oss-23-eager")
SMALL = "--hidden 32 --heads 4 --kv-heads 2 --ffn 48"
RECORDED = os.path.join(HERE, "recorded")


def shipped():
    found = variants(lambda name: name in SHIPPED)
    return {name: f"{words} {SMALL}" for name, words in found.items()}
