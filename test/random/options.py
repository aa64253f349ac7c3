# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws what one may ask of the compiler and of a run.

Numbers say what is computed: their options change losses, and the reference
has them, too. Places say where and when it is computed: they change no loss
by more than the order of sums does.
"""

import collections
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "training"))

import cases
from run_cases import STRATEGIES

# What both are made of: options of the compiler, of the run.
Words = collections.namedtuple("Words", "compile run")
# `rounding`: what values are rounded to (configurations.py, BARS).
Numbers = collections.namedtuple("Numbers", "case words rounding")
# A world: ranks, how many of them see the same samples, samples a microbatch,
# replicas; `resumed`: ranks of a second run that goes on from its middle, and
# `other`: options of its program, if that is another one.
Places = collections.namedtuple(
    "Places", "words ranks together batch replicas resumed other")

# Those whose losses the case's own options make: others only add to them.
CASES = ("gpt2-18", "gpt2-18-optimized", "gpt2-23", "gpt2-labels", "gpt2-odd",
         "gpt2-eager", "gpt2-untied-static", "llama-18", "llama-23-optimized",
         "llama-tied-static", "llama-inputs", "llama-labels",
         "llama-dynamic-seq", "llama-long", "llama-masked-labels",
         "smollm3-18", "bert", "bert-labels", "distilbert-classifier", "t5",
         "mixtral", "qwen3-moe", "gpt-oss", "gpt2-eight", "llama-eight",
         "qwen3-eight", "gemma3-eight", "regressor", "classifier",
         "gpt2-dropout", "gpt2-documents", "llama-documents", "padded-left",
         "focal-loss", "quantised", "tables", "modulation", "routed-experts",
         "added-experts", "hidden-words", "gpt2-small", "llama-small")

# Each is drawn with its probability, and then one of its values.
PRECISION = (
    (0.35, [["--param-dtype=bf16"], ["--param-dtype=bf16"],
            ["--param-dtype=bf16", "--reduce-dtype=bf16"],
            ["--param-dtype=f16"],
            ["--param-dtype=f16", "--reduce-dtype=f16"]]),
    (0.1, [["--reduce-dtype=bf16"], ["--output-dtype=bf16"],
           ["--output-dtype=f32"]]),
    (0.15, [["--matmul-dtype=fp8", "--matmul-gain=0"],
            ["--matmul-dtype=fp8:rowwise", "--matmul-gain=0"],
            ["--matmul-dtype=fp8"]]),
    (0.15, [["--gather-dtype=bf16"], ["--gather-dtype=int8"],
            ["--gather-dtype=fp8"]]),
    (0.15, [["--optimizer-dtype=bf16"], ["--optimizer-dtype=int8"]]),
    (0.1, [["--master-dtype=bf16", "--param-dtype=bf16"]]),
)
FEW_BITS = tuple(word.split("=")[0] for _, values in PRECISION
                 for words in values for word in words) + ("--base-dtype",)
ADAPTERS = ["--lora=4", "--lora=4,alpha=16", "--lora=2,rslora", "--lora=3,dora",
            "--lora=4,dropout=0.1", "--lora=5,alpha=4,dropout=0.2,dora"]
TARGETS = r"--lora-targets=.*\.(q_proj|v_proj|down_proj|c_attn|c_fc|query)"
BASES = ["--base-dtype=bf16", "--base-dtype=int8", "--base-dtype=nf4"]
TRAINED = [[r"--freeze=.*(bias|beta)"], [r"--freeze=.*(wte|embed|wpe).*"],
           [r"--trainable=.*\.1\..*"], [r"--freeze=.*\.0\..*"],
           [r"--freeze=.*norm.*", r"--freeze=.*ln_.*"]]
RUNS = (
    (0.2, [["--lr=1e-2"], ["--lr=3e-4"]]),
    (0.15, [["--weight-decay=0"], ["--weight-decay=0.3"],
            [r"--no-decay=.*(bias|norm|ln_).*"]]),
    (0.2, [["--clip-grad-norm=0"], ["--clip-grad-norm=0.1"],
           ["--clip-grad-value=0.01"]]),
    (0.2, [["--schedule=cosine", "--warmup=2"], ["--schedule=linear"],
           ["--schedule=wsd", "--warmup=1", "--min-lr=1e-4"]]),
    (0.15, [["--betas=0.8,0.99"], ["--eps=1e-6"]]),
    (0.2, [["--init=random", "--seed=5"], ["--seed=3", "--shuffle"],
           ["--shuffle"]]),
    (0.1, [["--loss-scale=dynamic"], ["--loss-scale=128"],
           ["--on-nonfinite=skip"]]),
)
LAYOUT = (
    (0.5, [["--recompute=block"], ["--recompute=selective"],
           ["--recompute=every:2"], ["--recompute=budget:300KB"],
           ["--recompute=budget:2MB"]]),
    (0.25, [["--mlp-chunks=2"], ["--mlp-chunks=3"], ["--mlp-chunks=auto"]]),
    (0.3, [["--forward-prefetch=0"], ["--forward-prefetch=3"],
           ["--backward-prefetch=0"],
           ["--forward-prefetch=2", "--backward-prefetch=2"]]),
    (0.3, [["--accumulate-mode=unsharded"]]),
    (0.4, [["--unit=size:1"], ["--unit=size:9000"], ["--unit=size:1M"],
           ["--unit=block", r"--unit=.*\.(mlp|self_attn|attn)"],
           [cases.config("units.json")], [cases.config("reshard.json")]]),
    (0.1, [[r"--ignore=.*(ln_|norm).*"], [r"--ignore=.*bias"]]),
    (0.15, [["--strict-numerics"]]),
    (0.1, [["--memory-budget=1GB", "--world-size=2"],
           ["--fit=64MiB", "--world-size=2"],
           ["--memory-budget=3MiB", "--world-size=2"]]),
    (0.05, [["--no-cache"]]),
)
# And how many ranks see the same samples.
MESHES = [("tensor:2", 2), ("tensor:3", 3), ("tensor:4", 4), ("context:2", 2),
          ("context:4", 4), ("context:2,tensor:2", 4)]
CONTEXTS = ["ulysses", "ring", "all-gather"]
PLACED_RUNS = (
    (0.2, [["--offload=optimizer"], ["--offload=params"]]),
    (0.2, [["--debug-memory"]]),
)


def choose(rng, values):
    return values[int(rng.integers(len(values)))]


def draw_each(rng, table, often=1.0):
    """Words of a table whose rows have a probability and values."""
    return [word for probability, values in table
            if rng.random() < probability * often
            for word in choose(rng, values)]


def draw_optimizer(rng):
    kind = choose(rng, ["adamw"] * 5 + ["adam", "sgd", "sgd", "muon", "muon"])
    if kind == "adamw":
        return Words([], [])
    run = {"adam": [[]], "sgd": [["--momentum=0.9"], ["--lr=0.05"], []],
           "muon": [[], ["--muon-lr=5e-3"],
                    ["--adjust-lr-fn=match_rms_adamw", "--momentum=0.9"]]}[kind]
    return Words([f"--optimizer={kind}"], choose(rng, run))


def draw_numbers(rng, name=None):
    case = cases.by_name(name or choose(rng, CASES))
    optimizer = draw_optimizer(rng)
    # Two in five are f32 alone, where an error of rounding hides nothing.
    plain = rng.random() < 0.4
    compile = [] if plain else draw_each(rng, PRECISION)
    if rng.random() < 0.2:
        compile += [choose(rng, ADAPTERS)]
        compile += [TARGETS] * (rng.random() < 0.3)
        if not plain and rng.random() < 0.5:
            compile += [choose(rng, BASES)]
    elif rng.random() < 0.15:
        compile += choose(rng, TRAINED)
    rounding = ("directions" if "--optimizer=muon" in optimizer.compile
                else "f32")
    if any(word.startswith(FEW_BITS) for word in compile):
        rounding = "few bits"
    return Numbers(
        case,
        Words(once([*optimizer.compile, *compile], case["compile"]),
              once([*optimizer.run, *draw_each(rng, RUNS)], case["run"])),
        rounding)


def once(words, given):
    """Without options that the case or an earlier word gives: what is given
    twice is an error of the command line, unless it is a pattern."""
    names, kept = {word.split("=")[0] for word in given}, []
    for word in words:
        name = word.split("=")[0]
        if name not in names:
            kept.append(word)
        if name not in ("--freeze", "--trainable"):
            names.add(name)
    return kept


def draw_world(rng, case):
    """Ranks, how many of them belong together, words of the compiler, batch."""
    together, words = 1, []
    if rng.random() < 0.35:
        mesh, together = choose(rng, MESHES)
        words = [f"--mesh={mesh}"]
        if mesh.startswith("context") and rng.random() < 0.6:
            words += [f"--context-attention={choose(rng, CONTEXTS)}"]
    groups = choose(rng, [n for n in (1, 2, 3, 4) if n * together <= 8])
    fits = [b for b in (1, 2, 3, 6) if cases.GLOBAL_BATCH % (b * groups) == 0]
    static = "--batch" in cases.MODELS[case["model"]]
    if static and cases.GLOBAL_BATCH % (case["batch"] * groups):
        groups = 1
    batch = case["batch"] if static else choose(rng, fits)
    return groups * together, together, words, batch


def draw_places(rng, case):
    ranks, together, words, batch = draw_world(rng, case)
    strategy = choose(rng, STRATEGIES)
    words = [f"--strategy={strategy}", *words, *draw_each(rng, LAYOUT, 0.7)]
    run = draw_each(rng, PLACED_RUNS)
    groups, replicas = ranks // together, 1
    if strategy.startswith("hybrid"):
        replicas = choose(rng, [n for n in range(1, groups + 1)
                                if groups % n == 0])
        run += [f"--replicas={replicas}"]
    resumed = choose(rng, [1, 2]) * together if rng.random() < 0.25 else 0
    other = ()
    if resumed and rng.random() < 0.6:
        other = (f"--strategy={choose(rng, STRATEGIES)}",
                 f"--recompute={choose(rng, ['none', 'block', 'selective'])}",
                 *[w for w in words if w.startswith(("--mesh", "--context"))])
    return Places(Words(words, run), ranks, together, batch, replicas, resumed,
                  other)
