#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the recorded cases, trains them, and compares with PyTorch.

    run_cases.py [--shardonnx build/bin/shardonnx] [--case NAME]
                 [--filter REGEX] [--matrix cases|ranks|core|mesh|adapters|all]
                 [--emulator build/lib/cuda-emulator]
                 [--steps N] [--jobs N] [--threads N]

`cases` runs every case of cases.py on two ranks. `ranks` runs a GPT-2 and a
Llama on 1 to 4 ranks, with every strategy, recompute and prefetch setting
once, and twice with the same bits; MLPs in chunks; ranks of tensor and context axes; adapters of six architectures in every
strategy on 1 to 3 ranks, pairwise, and so Muon; and random numbers at several numbers of ranks.
`all` is both. `adapters` is every combination of those, `mesh` more of the axes. `core` is one case of each kind, and a Llama with each strategy:
what an emulated device runs in minutes, and activations on the host, overlapped axes and resumed runs with it. With --emulator, programs are compiled
for CUDA and run on the emulated device, whose libraries lie in that folder.
--steps ends runs early whose steps do not depend on their number. --jobs runs
so many cases side by side, --threads gives the ranks of a run so many threads
together (else: all cores). Prints a table; exits non-zero if a run fails or
leaves the recorded one.
"""

import argparse
import concurrent.futures
import itertools
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import threading

import cases
import check
import mesh_cases
import mlp_cases
from machines import call_on_machines

# Settings that must not change any result, tried on these two cases.
MATRIX_CASES = ("gpt2-18", "llama-23-optimized")
MATRIX = [([], ranks) for ranks in (1, 2, 3, 4)] + [
    (["--strategy=shard_grad_op"], 3),
    (["--strategy=no_shard"], 3),
    (["--strategy=no_shard"], 1),
    (["--recompute=block"], 2),
    (["--strategy=shard_grad_op", "--recompute=block"], 4),
    (["--recompute=every:2"], 3),
    (["--recompute=selective"], 2),
    (["--recompute=budget:285KB"], 2),  # between none and block of both
    (["--memory-budget=1GB", "--world-size=2"], 2),
    (["--forward-prefetch=0", "--backward-prefetch=0"], 2),
    (["--forward-prefetch=2", "--backward-prefetch=2"], 3),
    (["--strategy=shard_opt"], 3),
    (["--accumulate-mode=unsharded"], 2),
    (["--strategy=shard_opt", "--accumulate-mode=unsharded"], 4),
    (["--strategy=no_shard", "--accumulate-mode=unsharded"], 2),
    ([cases.config("units.json")], 3),
    ([cases.config("units.json")], 1),
    (["--unit=size:9000"], 4),
    # Units with fewer elements than four ranks have slices.
    (["--unit=block", r"--unit=.*\.(ln_1|input_layernorm)",
      r"--ignore=.*\.(ln_2|post_attention_layernorm)\..*"], 4),
]

# What is drawn depends on none of these.
RANDOM_MATRIX = [
    ("gpt2-dropout", [([], 1), ([], 3), ([], 4), (["--recompute=block"], 3),
                      (["--strategy=no_shard"], 2)]),
    ("stochastic", [([], 1), (["--recompute=block"], 2)]),
]


STRATEGIES = ("full_shard", "shard_grad_op", "shard_opt", "no_shard",
              "hybrid_shard", "hybrid_shard_zero2")

# Adapters in every architecture, strategy and number of ranks: every pair of
# these, or with `--matrix adapters` all.
LORA_CASES = ("gpt2-lora", "llama-lora", "qwen3-lora", "mixtral-lora",
              "bert-lora", "t5-lora")
LORA_RANKS = (1, 2, 3)
# Muon's matrices have one owner each: in every strategy, likewise.
MUON_CASES = ("gpt2-muon", "llama-muon")
# Beside that, what else concerns adapters and packed weights.
LORA_MATRIX = [("llama-lora-dropout", ["--recompute=block"], 3, []),
               ("llama-dora", ["--strategy=hybrid_shard"], 4, ["--replicas=2"]),
               ("llama-qlora", ["--strategy=no_shard"], 1, []),
               ("llama-qlora", ["--strategy=shard_opt"], 3, []),
               ("llama-qdora", ["--accumulate-mode=unsharded",
                                "--recompute=selective"], 3, []),
               ("gpt2-lora-int8", ["--strategy=shard_grad_op"], 3, []),
               ("gpt2-lora-muon", ["--strategy=no_shard"], 1, []),
               ("gpt2-lora-muon", ["--strategy=hybrid_shard"], 4,
                ["--replicas=2"]),
               ("llama-dora-muon", ["--recompute=block"], 3, [])]

# Each kind of loss, layout, optimizer and dtype once, and every strategy.
CORE_CASES = ("gpt2-18", "llama-23-optimized", "smollm3-18", "gpt2-labels",
              "gpt2-dropout-fused", "llama-documents", "llama-documents-bf16",
              "llama-masked-labels", "gpt2-sgd", "gpt2-no-decay", "gpt2-freeze",
              "regressor", "classifier", "mixtral", "qwen3-moe-bf16",
              "gpt2-bf16", "llama-bf16", "gpt2-f16", "llama-qlora", "gpt2-fp8",
              "llama-fp8-rowwise", "gpt2-muon")
CORE_MATRIX = [([], 2, []), (["--strategy=shard_grad_op"], 2, []),
               (["--strategy=no_shard"], 2, []), (["--recompute=block"], 3, []),
               (["--strict-numerics"], 1, []),
               (["--strategy=shard_opt"], 2, ["--offload=params"]),
               (["--strategy=hybrid_shard", "--accumulate-mode=unsharded"], 4,
                ["--replicas=2"]),
               ([cases.config("reshard.json")], 4, [])]
# Matrices travel between ranks.
CORE_MUON = [("llama-muon", [], 3, []), ("llama-dora-muon", [], 3, []),
             ("gpt2-muon", ["--strategy=hybrid_shard"], 4, ["--replicas=2"]),
             ("llama-muon", ["--strategy=no_shard"], 2, []),
             ("gpt2-muon", ["--mesh=tensor:3"], 3, []),
             ("llama-muon", ["--mesh=tensor:2"], 4, [])]
# What waits for backward in a GPU's host memory changes no bit.
OFFLOAD_MATRIX = [("gpt2-18", []), ("gpt2-18", ["--recompute=block"]),
                  ("llama-23-optimized", ["--recompute=block"]),
                  ("llama-23-optimized",
                   ["--strategy=shard_grad_op", "--recompute=selective"]),
                  ("gpt2-bf16", ["--accumulate-mode=unsharded"])]
# Weights that are gathered in 8 bits, for GPUs that multiply these.
CORE_CODES = [("llama-fp8-codes", [], 3, []),
              ("llama-fp8-codes", ["--strategy=shard_opt"], 2,
               ["--offload=optimizer"]),
              ("gpt2-fp8-codes", [cases.config("reshard.json")], 4, []),
              ("gpt2-fp8-codes", ["--mesh=tensor:3"], 3, []),
              ("gpt2-fp8", [], 1, ["--offload=params"])]
# Their checkpoints, saved by some ranks and read by others, which make codes of
# the masters anew; and what such programs refuse.
RESUMED_RTOL = 1e-3
RESUMED_CODES = [("llama-fp8-codes", [], 3, 1),
                 ("gpt2-fp8-codes", ["--strategy=shard_opt"], 1, 2)]
REFUSED_CODES = [("llama-fp8-codes", 2, "--offload=params",
                  "which gathers it in the 8 bits of its products: "
                  "give --offload=optimizer")]


class Runner:
    """Compiles each program once and runs it on any number of ranks."""

    def __init__(self, options, folder):
        emulator = getattr(options, "emulator", None)
        self.compiler = options.shardonnx
        # That which is emulated; older ones multiply no 8 bits.
        self.target = ["--target=cuda", "--arch=sm_90"] if emulator else []
        self.environment = dict(os.environ)
        if emulator:
            self.environment |= emulated(emulator, folder)
        self.folder = folder
        self.timeout = options.timeout
        self.threads = options.threads
        self.steps = getattr(options, "steps", cases.STEPS)
        self.programs = {}  # futures: each is compiled by the first who asks
        self.runs = 0
        self.lock = threading.Lock()

    def call(self, words, ranks=1):
        """Output of a command, or an exception that says how it failed."""
        environment = dict(self.environment)
        if self.threads:
            threads = max(1, self.threads // ranks)
            environment["SHARDONNX_NUM_THREADS"] = str(threads)
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, timeout=self.timeout,
                              env=environment)
        if done.returncode != 0:
            last = done.stdout.strip().split("\n")[-1]
            raise RuntimeError(f"exit status {done.returncode}: {last}")
        return done.stdout

    def compile(self, case, extra):
        words = case["compile"] + extra + self.target
        if "--batch" not in cases.MODELS[case["model"]]:
            words = words + [f"--batch={case['batch']}"]
        return self.compile_once(
            cases.model_path(case["model"]), words,
            lambda said: check_warnings(said, recorded(case)["frozen"]))

    def compile_once(self, model, words, accept=lambda said: None):
        """The program's path; `accept` looks at what the compiler said."""
        key = (model, tuple(words))
        with self.lock:
            mine = key not in self.programs
            future = self.programs.setdefault(key,
                                              concurrent.futures.Future())
            program = os.path.join(self.folder, f"p{len(self.programs)}")
        if mine:
            try:
                accept(self.call([self.compiler, "compile", model, "-o",
                                  program] + words))
                future.set_result(program)
            except Exception as error:
                future.set_exception(error)
        return future.result()

    def new_log(self):
        with self.lock:
            self.runs += 1
            return os.path.join(self.folder, f"log{self.runs}.jsonl")

    def steps_of(self, case):
        """All of them where the learning rate depends on how many there are."""
        return cases.STEPS if "schedule" in case else self.steps

    def train(self, case, extra, ranks, run=(), machines=1, steps=None):
        """Runs a case and returns the path of its log."""
        program = self.compile(case, extra)
        log = self.new_log()
        groups = ranks // together_of(extra)
        accumulate = cases.GLOBAL_BATCH // (case["batch"] * groups)
        words = [program, "--data", cases.data_path(case["data"]),
                 "--log", log, "--steps", str(steps or self.steps_of(case)),
                 "--accumulate", str(accumulate)] + case["run"] + list(run)
        if machines > 1:
            call_on_machines(words, ranks, machines, self.environment,
                             self.timeout)
        else:
            self.call([*words, "--nproc", str(ranks)], ranks)
        return log


def together_of(extra):
    """Ranks that see the same samples."""
    axes = re.findall(r"(?:tensor|context):(\d+)", " ".join(extra))
    return math.prod(map(int, axes))


def replicas(strategy, ranks):
    """Options of the run: two groups where there are enough ranks for two."""
    if not strategy.startswith("hybrid"):
        return []
    return [f"--replicas={2 if ranks % 2 == 0 else ranks}"]


def strategy_runs(names, whole):
    """Cases with compiler's options, ranks and the run's options."""
    for (i, case), (j, strategy) in itertools.product(
            enumerate(names), enumerate(STRATEGIES)):
        near = LORA_RANKS[(i + j) % len(LORA_RANKS)]
        for ranks in LORA_RANKS if whole else (near,):
            yield (case, [f"--strategy={strategy}"], ranks,
                   replicas(strategy, ranks))


def emulated(libraries, folder):
    """The environment in which a program meets the emulated device."""
    return {"LD_LIBRARY_PATH": os.path.abspath(libraries),
            "CUDA_FORCE_PTX_JIT": "1",  # it has no machine of its own
            "SHARDONNX_EMULATOR_DEVICES": "4",
            "SHARDONNX_CACHE_DIR": folder}


def recorded(case):
    name = case.get("like", case["name"])
    path = os.path.join(cases.HERE, "recorded", name + ".json")
    with open(path) as file:
        return json.load(file)


def check_warnings(said, frozen):
    """The compiler must name every parameter that the export froze."""
    silent = [name for name in frozen if name not in said]
    if silent:
        raise RuntimeError("no warning that the export has frozen "
                           + ", ".join(silent))


def ranks_for(case, wanted):
    """The most ranks, at most `wanted`, that deal the batch out evenly."""
    microbatches = cases.GLOBAL_BATCH // case["batch"]
    return max(n for n in range(1, wanted + 1) if microbatches % n == 0)


def compare(case, log, steps):
    expected = {key: recorded(case)[key][:steps]
                for key in ("loss", "grad_norm", "lr")}
    return check.compare(check.read_log(log), expected,
                         case.get("loss_rtol", cases.LOSS_RTOL),
                         case.get("norm_rtol", cases.NORM_RTOL))


FAILURES = (RuntimeError, OSError, ValueError, subprocess.TimeoutExpired)


def run(runner, case, extra, ranks, options=(), machines=1):
    """Whether the run is as recorded, and its line of the table."""
    name = " ".join([case["name"], *extra, *options]
                    + [f"on {machines} machines"] * (machines > 1))
    try:
        log = runner.train(case, extra, ranks, options, machines)
        loss, norm, faults = compare(case, log, runner.steps_of(case))
    except FAILURES as error:
        return False, (f"FAIL  {ranks}  {'-':>7}  {'-':>7}  {name}\n"
                       f"      {error}")
    line = (f"{'FAIL' if faults else 'ok':4}  {ranks}  {loss:7.1e}  "
            f"{norm:7.1e}  {name}")
    return not faults, "\n      ".join([line, *faults[:3]])


def same_bits(runner, case, ranks, extra=(), other=()):
    """The same command twice, the second time with other options of the
    compiler, must log the same numbers."""
    keys = ("step", "loss", "grad_norm", "lr")
    name = " ".join([case["name"], *extra,
                     *(["with and without", *other] if other else ["twice"])])
    try:
        first, second = ([[line.get(k) for k in keys] for line in
                          check.read_log(runner.train(case, words, ranks))]
                         for words in (list(extra), [*extra, *other]))
    except FAILURES as error:
        return False, f"FAIL  {ranks}  {name}\n      {error}"
    same = first == second and bool(first)
    return same, (f"{'ok' if same else 'FAIL':4}  {ranks}  {'':7}  {'':7}  "
                  f"{name}, the same bits")


def resumed(runner, case, extra, ranks, others):
    """A run that other ranks go on with from its middle on is as one that
    these began, but for the order of sums."""
    name = " ".join([case["name"], *extra, f"resumed by {others}"])
    half = runner.steps_of(case) // 2
    saved = runner.new_log()
    try:
        runner.train(case, extra, ranks, ["--save", saved], steps=half)
        log = check.read_log(
            runner.train(case, extra, others, ["--resume", saved]))
        whole = check.read_log(runner.train(case, extra, others))
    except FAILURES as error:
        return False, f"FAIL  {ranks}  {name}\n      {error}"
    expected = {key: [line[key] for line in whole[half:]]
                for key in ("loss", "grad_norm", "lr")}
    for line in log:
        line["step"] -= half
    loss, norm, faults = check.compare(log, expected, RESUMED_RTOL,
                                       RESUMED_RTOL)
    line = (f"{'FAIL' if faults else 'ok':4}  {ranks}  {loss:7.1e}  "
            f"{norm:7.1e}  {name}")
    return not faults, "\n      ".join([line, *faults[:3]])


def chunked(runner, case, ranks, extra):
    """MLPs in chunks give the losses that they give whole."""
    name = " ".join([case["name"], *extra, "with and without --mlp-chunks=2"])
    try:
        whole, chunks = (check.read_log(runner.train(case, words, ranks))
                         for words in (extra, [*extra, "--mlp-chunks=2"]))
    except FAILURES as error:
        return False, f"FAIL  {ranks}  {name}\n      {error}"
    expected = {key: [line[key] for line in whole]
                for key in ("loss", "grad_norm", "lr")}
    loss, norm, faults = check.compare(chunks, expected, mlp_cases.RTOL,
                                       mlp_cases.RTOL)
    line = (f"{'FAIL' if faults else 'ok':4}  {ranks}  {loss:7.1e}  "
            f"{norm:7.1e}  {name}")
    return not faults, "\n      ".join([line, *faults[:3]])


def refused(runner, case, ranks, word, why):
    """A program says why it does not run with an option."""
    try:
        runner.train(case, [], ranks, [word])
        said = "it runs"
    except FAILURES as error:
        said = str(error)
    right = why in said
    return right, "\n      ".join(
        [f"{'ok' if right else 'FAIL':4}  {ranks}  {'':7}  {'':7}  "
         f"{case['name']} {word}, refused"] + [said] * (not right))


def overlapped(runner, case, ranks, extra):
    """With and without what runs beside collectives of axes."""
    chunks = [word for word in extra if word.startswith("--axis-chunks")]
    return same_bits(runner, case, ranks,
                     [word for word in extra if word not in chunks],
                     ["--overlap-axes", *chunks])


def table(jobs, runner, count):
    """Runs functions of a runner, `count` at a time, and prints their lines in
    their order; returns what else they gave."""
    results = []
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        for result, line in pool.map(lambda job: job(runner), jobs):
            print(line, flush=True)
            results.append(result)
    return results


def add_options(parser):
    """What the tables of training runs have in common."""
    parser.add_argument("--shardonnx", metavar="PROGRAM",
                        default=os.path.join(cases.ROOT, "build", "bin",
                                             "shardonnx"))
    parser.add_argument("--timeout", type=float, default=300, metavar="SECONDS",
                        help="for one command")
    parser.add_argument("--jobs", type=int, default=1, metavar="N",
                        help="runs side by side")
    parser.add_argument("--threads", type=int, metavar="N",
                        help="threads of the ranks of a run, together")


def wanted(options, name):
    return ((not options.case or name in options.case)
            and re.search(options.filter, name))


def listed(options, runs, machines=1):
    for name, extra, ranks, words in runs:
        if wanted(options, name):
            yield lambda r, c=cases.by_name(name), e=extra, n=ranks, w=words: run(
                r, c, e, n, w, machines)


def jobs(options):
    """What to run: functions of a Runner, in order."""
    if options.matrix in ("cases", "all"):
        for case in cases.CASES:
            if wanted(options, case["name"]):
                ranks = ranks_for(case, options.ranks)
                yield lambda r, c=case, n=ranks: run(r, c, [], n)
    if options.matrix == "core":
        for name in CORE_CASES:
            if wanted(options, name):
                yield lambda r, c=cases.by_name(name): run(r, c, [], 1)
        case = cases.by_name(MATRIX_CASES[1])
        if wanted(options, case["name"]):
            for extra, ranks, words in CORE_MATRIX:
                yield lambda r, e=extra, n=ranks, w=words: run(r, case, e, n, w)
            yield lambda r: same_bits(r, case, 2)
        yield from listed(options,
                          mesh_cases.CORE_MESH + mlp_cases.CORE_MLPS + CORE_MUON
                          + CORE_CODES)
        yield from listed(options, mesh_cases.CORE_MACHINES, machines=2)
        for name, extra in OFFLOAD_MATRIX if options.emulator else ():
            if wanted(options, name):
                yield lambda r, c=cases.by_name(name), e=extra: same_bits(
                    r, c, 2, e, ["--offload=activations"])
        for name, extra, ranks, others in RESUMED_CODES:
            if wanted(options, name):
                yield lambda r, c=cases.by_name(name), e=extra, n=ranks, o=others: (
                    resumed(r, c, e, n, o))
        for name, ranks, word, why in REFUSED_CODES if options.emulator else ():
            if wanted(options, name):
                yield lambda r, c=cases.by_name(name), n=ranks, w=word, y=why: (
                    refused(r, c, n, w, y))
        overlap = mesh_cases.OVERLAP_MATRIX if options.emulator else ()
        for name, extra, ranks in overlap:
            if wanted(options, name):
                yield lambda r, c=cases.by_name(name), e=extra, n=ranks: (
                    overlapped(r, c, n, e))
    if options.matrix in ("ranks", "all"):
        for name in MATRIX_CASES:
            case = cases.by_name(name)
            if not wanted(options, name):
                continue
            for extra, ranks in MATRIX:
                yield lambda r, c=case, e=extra, n=ranks: run(r, c, e, n)
            yield lambda r, c=case: same_bits(r, c, 3)
        yield from listed(options, mlp_cases.MLP_MATRIX + LORA_MATRIX)
        for name, extra in mlp_cases.MLP_SAME:
            if wanted(options, name):
                yield lambda r, c=cases.by_name(name), e=extra: chunked(
                    r, c, 2, e)
        yield from listed(options, strategy_runs(MUON_CASES, whole=False))
    if options.matrix in ("ranks", "mesh", "all"):
        yield from listed(options, mesh_cases.MESH_MATRIX
                          + mesh_cases.CONTEXT_MATRIX)
        yield from listed(options, mesh_cases.MACHINES_MATRIX, machines=2)
    if options.matrix == "mesh":
        yield from listed(options, mesh_cases.CONTEXT_WHOLE)
    if options.matrix in ("ranks", "adapters", "all"):
        whole = options.matrix == "adapters"
        yield from listed(options, strategy_runs(LORA_CASES, whole))
    if options.matrix in ("ranks", "all"):
        for name, settings in RANDOM_MATRIX:
            if not wanted(options, name):
                continue
            case = cases.by_name(name)
            for extra, ranks in settings:
                yield lambda r, c=case, e=extra, n=ranks: run(r, c, e, n)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_options(parser)
    parser.add_argument("--case", action="append", metavar="NAME",
                        help="only this case; may be repeated")
    parser.add_argument("--filter", default="", metavar="REGEX",
                        help="only cases whose name matches")
    parser.add_argument("--matrix", choices=("cases", "ranks", "core", "mesh",
                                 "adapters", "all"),
                        default="all")
    parser.add_argument("--ranks", type=int, default=2, metavar="N",
                        help="ranks of `cases`")
    parser.add_argument("--steps", type=int, default=cases.STEPS, metavar="N",
                        choices=range(1, cases.STEPS + 1),
                        help=f"of each run (all {cases.STEPS})")
    parser.add_argument("--emulator", metavar="FOLDER",
                        help="compile for CUDA and run on the emulated device")
    options = parser.parse_args()
    unknown = set(options.case or ()) - {c["name"] for c in cases.CASES}
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    print("      ranks  loss     norm     run (largest relative errors)")
    with tempfile.TemporaryDirectory() as folder:
        results = table(jobs(options), Runner(options, folder), options.jobs)
    failed = results.count(False)
    print(f"{len(results) - failed} of {len(results)} runs follow PyTorch")
    sys.exit(1 if failed or not results else 0)


if __name__ == "__main__":
    main()
