#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains with every way to share the work, and compares with one rank.

    run_strategies.py [--shardonnx build/bin/shardonnx] [--all]
                      [--filter REGEX] [--memory-model MODEL.onnx]
                      [--table FILE.md] [--jobs N] [--threads N]

Each run is one of strategy × recompute × accumulation mode × ranks × dtype on
three models, or the same of a Llama on meshes of 2 x 2 ranks; its losses must
be those of one rank that shards, recomputes and holds back nothing. Without --all a selection runs in which every pair of two
settings occurs. Afterwards the memory of each strategy at 1, 2 and 4 ranks is
measured against what was planned, with drawn weights: --memory-model may be a
larger model than the project's. --table writes both as a page.
"""

import argparse
import itertools
import os
import re
import sys
import tempfile

import cases
import check
from run_cases import (FAILURES, STRATEGIES, Runner, add_options, replicas,
                       table)

MODELS = ("gpt2-18", "llama-23-optimized", "smollm3-18")
RECOMPUTE = ("none", "block", "selective", "every:2")
ACCUMULATE = ("sharded", "unsharded")
RANKS = (1, 2, 3, 4)
DTYPES = ("f32", "bf16")
AXES = (MODELS, STRATEGIES, RECOMPUTE, ACCUMULATE, RANKS, DTYPES)
# 4 ranks, of which 2 compute the same samples together.
MESH_MODEL, MESH_RANKS = "llama-23-optimized", 4
MESHES = ("tensor:2", "context:2")
MESH_AXES = (MESHES, STRATEGIES, RECOMPUTE, ACCUMULATE, DTYPES)

# Largest relative difference of a loss from one rank's.
LOSS_RTOL = {"f32": 1e-5, "bf16": 1e-2}

# Measured memory may differ from planned by this share and these bytes: how
# much of the executable and of libraries lies in memory is the kernel's choice.
MEMORY_SHARE, MEMORY_BYTES = 0.01, 1 << 20
# Of a file that is mapped, the kernel brings up to 64 KiB around each page that
# is touched, where it has them at hand.
OFFLOAD_BYTES = 1 << 20
MEMORY_MODEL = os.path.join(cases.ROOT, "models", "gpt2-small.onnx")
MEMORY_RANKS, MEMORY_STEPS, MEMORY_BATCH = (1, 2, 4), 3, 8
# Beside the strategies: options of the compiler and of the run by name. Of
# slices in a file only the part that is read or written is memory.
MEMORY_OPTIONS = {
    "LoRA": (["--lora=4"], []),
    "QLoRA": (["--lora=4", "--base-dtype=nf4"], []),
    "QLoRA, --offload=params": (["--lora=4", "--base-dtype=nf4"],
                                ["--offload=params"]),
    "--offload=optimizer": ([], ["--offload=optimizer"]),
    "--offload=params": ([], ["--offload=params"]),
    "--optimizer-dtype=int8": (["--optimizer-dtype=int8"], []),
    "--master-dtype=bf16": (["--master-dtype=bf16"], []),
    "--gather-dtype=int8": (["--gather-dtype=int8"], []),
}
# What a dtype of the parameters excludes.
REFUSED = {("--master-dtype=bf16", "f32")}


# Above the tables of the page.
CHOICE = """\
**Choose a strategy.** With a memory limit, let the compiler choose: `--fit=24GiB --world-size=N` takes the strategy, recomputation and
prefetch of the fastest step that fits ([fsdp.md](fsdp.md#the-fastest-step-that-fits)). By hand: `full_shard` (ZeRO-3) where memory is
short, and on CPUs of one machine, where its gathers cost next to nothing; `shard_grad_op` where a rank can hold the parameters
through a step and links are slow; `shard_opt` (ZeRO-2 and -1) with many microbatches, as it gathers once a step; `no_shard` (DDP) where all of it
fits on each rank; the hybrid ones where a group of ranks, usually a machine, has fast links and the machines between them slow ones.
Losses do not depend on it.

**Beside it, a mesh.** Every strategy takes `--mesh` ([mesh.md](mesh.md)), and shards over the ranks of shard × context what a rank of the tensor axis has. A tensor axis makes
parameters, optimizer state, gradients and activations of a rank smaller, for exchanges in every layer: it belongs on the fast links of a
machine, with the strategy between machines. A context axis makes activations of long sequences smaller and leaves parameters to
the strategy. `shardonnx plan` without `--mesh` compares them.
"""


def words(strategy="full_shard", recompute="none", accumulate="sharded",
          dtype="f32"):
    """Options of the compiler."""
    return [f"--strategy={strategy}", f"--recompute={recompute}",
            f"--accumulate-mode={accumulate}", f"--param-dtype={dtype}"]


def pairwise(axes):
    """Combinations in which every pair of two axes' values occurs, chosen
    greedily: the same ones in every run."""
    open_pairs = {((i, x), (j, y))
                  for i, j in itertools.combinations(range(len(axes)), 2)
                  for x in axes[i] for y in axes[j]}

    def covered(combination):
        return {((i, combination[i]), (j, combination[j]))
                for i, j in itertools.combinations(range(len(axes)), 2)}

    chosen = []
    everything = list(itertools.product(*axes))
    while open_pairs:
        best = max(everything, key=lambda c: len(covered(c) & open_pairs))
        chosen.append(best)
        open_pairs -= covered(best)
    return chosen


class MemoryRunner(Runner):
    """Also runs a model that is no recorded case, to see what it takes."""

    def measure(self, model, compile_words, ranks, run_words):
        program = self.compile_once(
            model, [f"--batch={MEMORY_BATCH}"] + compile_words)
        log = self.new_log()
        if any(word.startswith("--offload") for word in run_words):
            run_words = run_words + ["--offload-dir", self.folder]
        self.call([program, "--data", cases.data_path(cases.TOKENS),
                   "--log", log, "--steps", str(MEMORY_STEPS), "--init=random",
                   "--accumulate=2", "--nproc", str(ranks)] + run_words, ranks)
        return log


class References:
    """One rank's losses by model and dtype."""

    def __init__(self):
        self.losses = {}

    def of(self, runner, model, dtype):
        # Who asks while another computes them computes them, too.
        key = (model, dtype)
        if key not in self.losses:
            log = runner.train(cases.by_name(model), words(dtype=dtype), 1)
            self.losses[key] = losses_of(log)
        return self.losses[key]


def losses_of(log):
    return [line["loss"] for line in check.read_log(log)]


def difference(mine, theirs):
    """The largest relative difference; infinite where a number is missing."""
    if len(mine) != cases.STEPS or len(theirs) != cases.STEPS:
        return float("inf")
    if any(x is None for x in mine + theirs):
        return float("inf")
    return max(abs(x - y) / abs(y) for x, y in zip(mine, theirs))


def train(runner, references, combination):
    """A row of the page (combination, difference, verdict) and its line."""
    model, strategy, recompute, accumulate, ranks, dtype = combination
    return compare(runner, references, combination, model, dtype,
                   words(strategy, recompute, accumulate, dtype), ranks,
                   replicas(strategy, ranks))


def train_mesh(runner, references, combination):
    """The same of a combination of MESH_AXES."""
    mesh, strategy, recompute, accumulate, dtype = combination
    return compare(runner, references, combination, MESH_MODEL, dtype,
                   [f"--mesh={mesh}",
                    *words(strategy, recompute, accumulate, dtype)],
                   MESH_RANKS, replicas(strategy, MESH_RANKS))


def compare(runner, references, combination, model, dtype, compile_words, ranks,
            run_words):
    name = " ".join(map(str, combination))
    try:
        log = runner.train(cases.by_name(model), compile_words, ranks,
                           run_words)
        worst = difference(losses_of(log), references.of(runner, model, dtype))
    except FAILURES as error:
        return ((*combination, None, False),
                f"FAIL  {'-':>7}  {name}\n      {error}")
    good = worst <= LOSS_RTOL[dtype]
    return ((*combination, worst, good),
            f"{'ok' if good else 'FAIL':4}  {worst:7.1e}  {name}")


def memory_words(what, ranks, dtype):
    """Options of the compiler and of the run, of a strategy or of
    MEMORY_OPTIONS."""
    if what in MEMORY_OPTIONS:
        compile_words, run_words = MEMORY_OPTIONS[what]
        return words(dtype=dtype) + compile_words, run_words
    return words(what, dtype=dtype), replicas(what, ranks)


def measure(runner, model, what, ranks, dtype):
    """Planned and measured bytes of the largest rank, and their line."""
    name = f"memory {what} {ranks} {dtype}"
    try:
        compile_words, run_words = memory_words(what, ranks, dtype)
        log = runner.measure(model, compile_words, ranks, run_words)
        last = check.read_log(log)[-1]
        planned, measured = last["peak_bytes"], last["pss_bytes"]
    except (*FAILURES, KeyError, IndexError) as error:
        return ((what, ranks, dtype, None, None, False),
                f"FAIL  {'-':>7}  {name}\n      {error}")
    bound = MEMORY_SHARE * planned + MEMORY_BYTES
    if "--offload" in what:
        bound += OFFLOAD_BYTES
    good = abs(measured - planned) <= bound
    return ((what, ranks, dtype, planned, measured, good),
            f"{'ok' if good else 'FAIL':4}  {mib(planned)} planned, "
            f"{mib(measured)} measured  {name}")


def mib(count):
    return f"{count / 2**20:.1f} MiB"


def shown(worst):
    return "failed" if worst is None else f"{worst:.1e}"


def run_table(runs):
    """A row for each model and setting, a column for each number of ranks."""
    rows = {}
    for *setting, ranks, dtype, worst, _ in runs:
        rows.setdefault((*setting, dtype), {})[ranks] = shown(worst)
    yield ("| model | strategy | recompute | accumulation | dtype | "
           + " | ".join(f"{n} ranks" if n > 1 else "1 rank" for n in RANKS)
           + " |")
    yield "| --- | --- | --- | --- | --- |" + " --- |" * len(RANKS)
    for key, cells in rows.items():
        yield ("| " + " | ".join(key) + " | "
               + " | ".join(cells.get(n, "") for n in RANKS) + " |")


def mesh_table(runs):
    """A row for each setting, a column for each mesh."""
    rows = {}
    for mesh, *setting, worst, _ in runs:
        rows.setdefault(tuple(setting), {})[mesh] = shown(worst)
    yield ("| strategy | recompute | accumulation | dtype | "
           + " | ".join(MESHES) + " |")
    yield "| --- | --- | --- | --- |" + " --- |" * len(MESHES)
    for key, cells in rows.items():
        yield ("| " + " | ".join(key) + " | "
               + " | ".join(cells.get(mesh, "") for mesh in MESHES) + " |")


def memory_table(memory):
    rows = {}
    for what, ranks, dtype, planned, measured, _ in memory:
        cell = "failed" if planned is None else (f"{planned / 2**20:.1f} / "
                                                 f"{measured / 2**20:.1f}")
        rows.setdefault((what, dtype), {})[ranks] = cell
    yield ("| strategy or option | dtype | " + " | ".join(
        f"{n} rank{'s' if n > 1 else ''}" for n in MEMORY_RANKS) + " |")
    yield "| --- | --- |" + " --- |" * len(MEMORY_RANKS)
    for key, cells in rows.items():
        yield ("| " + " | ".join(key) + " | "
               + " | ".join(cells.get(n, "") for n in MEMORY_RANKS) + " |")


def page(runs, meshes, memory, model):
    """The page that docs/ keeps."""
    failed = sum(not row[-1] for row in runs + meshes)
    yield "# Every strategy against one rank"
    yield ""
    yield from CHOICE.splitlines()
    yield ""
    yield ("Written by `test/training/run_strategies.py --table`: "
           f"{len(runs + meshes)} runs, {failed} failed. Each figure is the largest "
           f"relative difference of a loss in")
    yield (f"{cases.STEPS} steps from that of one rank with the same dtype, no "
           f"recomputation and sharded accumulation; the bars are "
           f"{LOSS_RTOL['f32']:g} (f32) and {LOSS_RTOL['bf16']:g} (bf16).")
    yield ("A step is 12 samples, dealt to ranks and microbatches. Hybrid "
           "strategies have two replicas, on three ranks three.")
    yield ""
    yield "## Memory of a rank"
    yield ""
    yield (f"{model}, {MEMORY_BATCH} samples a rank and microbatch, two "
           "microbatches; the largest rank: MiB planned before the run / "
           "proportional")
    yield "set size measured. Options are those of full_shard."
    yield ""
    yield from memory_table(memory)
    yield ""
    yield "## Losses"
    yield ""
    yield from run_table(runs)
    yield ""
    yield "## Losses on a mesh of 2 x 2 ranks"
    yield ""
    yield (f"{MESH_MODEL}: two groups of ranks of a tensor or a context axis "
           "([mesh.md](mesh.md)), which are two replicas")
    yield "with a hybrid strategy, else two shards."
    yield ""
    yield from mesh_table(meshes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_options(parser)
    parser.add_argument("--all", action="store_true",
                        help="every combination, not every pair")
    parser.add_argument("--filter", default="", metavar="REGEX",
                        help="only runs whose line matches")
    parser.add_argument("--memory-model", default=MEMORY_MODEL,
                        metavar="MODEL.onnx", help="whose memory is measured")
    parser.add_argument("--table", metavar="FILE.md", help="write a page")
    options = parser.parse_args()
    chosen, on_meshes = (
        [c for c in (itertools.product(*axes) if options.all
                     else pairwise(axes))
         if re.search(options.filter, " ".join(map(str, c)))]
        for axes in (AXES, MESH_AXES))
    with tempfile.TemporaryDirectory() as folder:
        runner = MemoryRunner(options, folder)
        references = References()
        print("      loss     run (largest relative difference from one rank)")
        runs = table([lambda r, c=c: train(r, references, c) for c in chosen],
                     runner, options.jobs)
        meshes = table([lambda r, c=c: train_mesh(r, references, c)
                        for c in on_meshes], runner, options.jobs)
        memory = table([lambda r, s=s, n=n, d=d:
                        measure(r, options.memory_model, s, n, d)
                        for s in (*STRATEGIES, *MEMORY_OPTIONS)
                        for d in DTYPES for n in MEMORY_RANKS
                        if (s, d) not in REFUSED and re.search(options.filter, f"memory {s} {n} {d}")],
                       runner, options.jobs)
    rows = runs + meshes + memory
    failed = sum(not row[-1] for row in rows)
    if options.table:
        with open(options.table, "w") as file:
            file.writelines(line + "\n" for line in page(
                runs, meshes, memory, os.path.basename(options.memory_model)))
    print(f"{len(rows) - failed} of {len(rows)} are as they should be")
    sys.exit(1 if failed or not rows else 0)


if __name__ == "__main__":
    main()
