#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains models with PyTorch and with our executables, in turns.

Start it as benchmarks/run. The contenders alternate, round after round, so
that a machine that grows slower does so for all. Every turn is a line of a
file as soon as it is over; a run that was cut off goes on with what is missing.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time

import measure
import plot
import tables
from contenders import (C, CONTENDERS, WORKLOADS, chosen, compile_words, ours,
                        trains)
from results import Results

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)

# Small enough that a few steps on random tokens do not diverge, where the
# losses of two correct programs part.
LEARNING_RATE = "1e-4"
# What is compiled besides the workloads' programs: a second time with other
# options of training, and a model whose weights are a sparse file.
AGAIN = ("w1", ("--strategy=shard_grad_op",))
LARGE = "llama-8b"


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"{self.prog}: error: {message}\n")


def listed(workloads):
    return "\n".join(f"  {name:9}{work.title}"
                     for name, work in workloads.items())


def parse():
    parser = Parser(
        prog="benchmarks/run", description=__doc__.split("\n")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"workloads:\n{listed(WORKLOADS)}\ncontenders:\n  "
               + "\n  ".join(CONTENDERS))
    parser.add_argument("--workloads", "--models", nargs="+", metavar="NAME",
                        choices=list(WORKLOADS), default=list(WORKLOADS),
                        help="only these")
    parser.add_argument("--contenders", nargs="+", metavar="NAME",
                        choices=list(CONTENDERS),
                        help="these for every workload, instead of its own")
    parser.add_argument("--steps", type=int, metavar="N",
                        help="of a round, instead of the workload's")
    parser.add_argument("--rounds", type=int, default=1, metavar="N",
                        help="how often each contender trains (1)")
    parser.add_argument("--out", metavar="FILE.jsonl",
                        help="what was measured; the tables and the plot are "
                        "written beside it, as .md and .svg (results.jsonl in "
                        "--work)")
    parser.add_argument("--resume", action="store_true",
                        help="go on with --out: measure what it lacks")
    parser.add_argument("--seconds", type=float, default=float("inf"),
                        metavar="N", help="start no turn later than this")
    parser.add_argument("--show", metavar="FILE.jsonl",
                        help="measure nothing: tables and plot of that file")
    parser.add_argument("--large", action=argparse.BooleanOptionalAction,
                        default=True, help="also compile a Llama of 8 B "
                        "parameters whose weights are a sparse file (yes)")
    parser.add_argument("--shardonnx", metavar="PROGRAM",
                        default=os.path.join(ROOT, "build", "bin",
                                             "shardonnx"),
                        help="the compiler (build/bin/shardonnx)")
    parser.add_argument("--compile-option", action="append", default=[],
                        metavar="OPTION", help="passed to shardonnx compile")
    parser.add_argument("--work", metavar="DIR",
                        default=os.path.join(ROOT, "build", "benchmarks"),
                        help="for models, programs and logs "
                        "(build/benchmarks)")
    parser.add_argument("--timeout", type=float, default=300,
                        metavar="SECONDS",
                        help="for one contender's round (300)")
    options = parser.parse_args()
    least = max(WORKLOADS[name].warm_up for name in options.workloads)
    if options.steps is not None and options.steps <= least:
        parser.error(f"--steps: more than {least} are needed")
    for name in options.contenders or ():
        unable = [w for w in options.workloads if not trains(name, w)]
        if unable:
            parser.error(f"--contenders: {name} cannot train "
                         f"{', '.join(unable)}: name others in --workloads")
    if options.rounds < 1:
        parser.error("--rounds: at least one is needed")
    options.out = options.out or os.path.join(options.work, "results.jsonl")
    return options


# ---- What there must be before anything is measured

def torch_python():
    """The Python with PyTorch, which is made if it is not there."""
    default = os.path.join(ROOT, ".deps", "torch")
    env = os.environ.get("SHARDONNX_TORCH_ENV") or default
    python = os.path.join(env, "bin", "python")
    if env == default or not os.access(python, os.X_OK):
        subprocess.run([os.path.join(ROOT, "models", "make_env"), env],
                       check=True)
    return python


def cores():
    return len(os.sched_getaffinity(0))


def cpu():
    """The processor's name, and its flags."""
    name, flags = platform.processor() or platform.machine(), []
    with open("/proc/cpuinfo") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                name = value.strip()
            if key.strip() == "flags":
                flags = value.split()
                break
    return name, flags


def describe(options):
    """The header of the results: on what, and of what."""
    # Not imported here: a child's peak memory starts from its parent's.
    torch = subprocess.run(
        [options.python, "-c", "import torch; print(torch.__version__, "
         "torch.backends.cpu.get_cpu_capability())"],
        capture_output=True, text=True, check=True).stdout.split()
    name, flags = cpu()
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short",
                             "HEAD"], capture_output=True, text=True)
    return dict(machine=name, cores=cores(), isa=torch[1], pytorch=torch[0],
                commit=commit.stdout.strip() or "unknown",
                bf16_products=bool({"avx512_bf16", "amx_bf16"} & set(flags)))


def measure_limits(options, results):
    """What the cores do at best in products: ours, and PyTorch's."""
    if results.of("limit"):
        return
    program = os.path.join(os.path.dirname(options.shardonnx), "gemm_limit")
    for words in ([program], [options.python,
                              os.path.join(HERE, "torch_limit.py")]):
        done = subprocess.run(words, capture_output=True, text=True,
                              check=True)
        results.add("limit", **json.loads(done.stdout))


def graph_of(preset, options, more=()):
    graph = os.path.join(options.work, preset + ".onnx")
    if not os.path.exists(graph):
        subprocess.run([options.python,
                        os.path.join(ROOT, "models", "export.py"), preset,
                        "-o", graph, *more], check=True,
                       stdout=subprocess.DEVNULL)
    return graph


def compiled(options, results, preset, batch, words=(), more=()):
    """The program of a model; how long it took to make is a result."""
    what = " ".join([preset, *words])
    program = os.path.join(options.work, "-".join(
        [preset, *(word.strip("-").replace("=", "-") for word in words)]))
    known = any(line["what"] == what for line in results.of("compile"))
    if known and os.path.exists(program):
        return program
    graph = graph_of(preset, options, more)
    seconds, resident = measure.run_and_time(
        [options.shardonnx, "compile", graph, "-o", program,
         f"--batch={batch}", *words, *options.compile_option],
        {"SHARDONNX_CACHE_DIR": os.path.join(options.work, "cache")})
    results.add("compile", what=what, seconds=seconds, rss=resident)
    print(f"- compiling {what}: {seconds:.1f} s", file=sys.stderr, flush=True)
    return program


def compile_all(options, results):
    """Every program that will run, by workload and contender."""
    # Nothing of an earlier run: the first time counts as the first time.
    if not results.of("compile"):
        shutil.rmtree(os.path.join(options.work, "cache"), ignore_errors=True)
    programs = {}
    for workload in options.workloads:
        work = WORKLOADS[workload]
        for name in filter(ours, chosen(workload, options.contenders)):
            programs[workload, name] = compiled(
                options, results, work.preset, work.samples,
                compile_words(workload, name))
        if programs and workload == AGAIN[0]:
            compiled(options, results, work.preset, work.samples, AGAIN[1])
    if programs and options.large:
        compiled(options, results, LARGE, 1, more=("--no-weights",))
    return programs


def data_of(workload, options):
    """The samples' file."""
    work = WORKLOADS[workload]
    if work.vocabulary:
        path = os.path.join(options.work,
                            f"tokens-{work.vocabulary}-{work.length}.bin")
        if not os.path.exists(path):
            measure.write_tokens(path, work.vocabulary, work.length * 1024 + 1)
        return path
    path = os.path.join(options.work, work.preset + ".npz")
    if not os.path.exists(path):
        subprocess.run([options.python, os.path.join(HERE, "samples.py"),
                        work.preset, path], check=True)
    return path


# ---- One turn of one contender

def peer_commands(workload, name, options, steps, data, log):
    """One process a rank, cores dealt out evenly."""
    work, (mode, ranks, dtype) = WORKLOADS[workload], CONTENDERS[name]
    words = [options.python, os.path.join(HERE, "peer.py"), work.preset,
             "--mode", mode, "--precision", dtype, "--data", data, "--steps",
             str(steps), "--batch", str(work.samples), "--lr", LEARNING_RATE,
             "--log", log, *(["--lora", str(work.lora)] if work.lora else [])]
    shared = {"OMP_NUM_THREADS": str(max(1, cores() // ranks)),
              "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(measure.free_port()), "HF_HUB_OFFLINE": "1",
              "TORCH_CPP_LOG_LEVEL": "ERROR",
              "TORCHINDUCTOR_CACHE_DIR": os.path.join(options.work,
                                                      "inductor")}
    return [(words, {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(ranks)]


def our_commands(name, program, steps, data, log):
    """OMP_NUM_THREADS is left unset: the executable deals out the cores."""
    return [([program, "--data", data, "--steps", str(steps), "--lr",
              LEARNING_RATE, "--nproc", str(CONTENDERS[name].ranks), "--log",
              log], {})]


def plain_c_commands(workload, options, steps, data, log):
    """gpt2.c, built for this machine; threads are OpenMP's own, all cores."""
    work = WORKLOADS[workload]
    weights = os.path.join(options.work, work.preset + ".gpt2")
    if not os.path.exists(weights):
        subprocess.run([options.python, os.path.join(HERE, "samples.py"),
                        work.preset, weights], check=True)
    program = os.path.join(options.work, "gpt2")
    subprocess.run([os.environ.get("CC", "cc"), "-O3", "-march=native",
                    "-ffast-math", "-fopenmp", os.path.join(HERE, "gpt2.c"),
                    "-o", program, "-lm"], check=True)
    return [([program, weights, data, str(steps), str(work.samples),
              LEARNING_RATE, log], {})]


def commands_of(workload, name, options, program, steps, log):
    data = data_of(workload, options)
    if ours(name):
        return our_commands(name, program, steps, data, log)
    if CONTENDERS[name].mode == C:
        return plain_c_commands(workload, options, steps, data, log)
    return peer_commands(workload, name, options, steps, data, log)


def take_turn(workload, name, options, program):
    """Trains once, and returns what came of it."""
    work = WORKLOADS[workload]
    steps = options.steps or work.steps
    log = os.path.join(options.work, f"{workload}-{name}.jsonl")
    commands = commands_of(workload, name, options, program, steps, log)
    watch = measure.ProcessMemory(CONTENDERS[name].ranks)
    found = measure.run(commands, log, options.timeout, watch)
    if len(found) != steps:
        raise RuntimeError(f"{len(found)} steps in its log, not {steps}")
    if not watch.peak[0]:
        raise RuntimeError("it ended before its memory was seen: more --steps "
                           "are needed")
    last = found[-1]
    flops = (round(last["tflops"] * last["step_ms"] * 1e9)
             if last.get("tflops") else None)
    return dict(ms=[step["step_ms"] for step in found[work.warm_up:]],
                losses=[step["loss"] for step in found], rss=watch.peak[0],
                pss=watch.peak[1], flops=flops)


def turns(options):
    """All turns in their order: workload, contender, round."""
    for workload in options.workloads:
        for turn in range(1, options.rounds + 1):
            for name in chosen(workload, options.contenders):
                yield workload, name, turn


def contend(options, results, programs):
    """Takes the turns that are missing. A contender that fails is a result;
    the others go on."""
    begin = time.monotonic()
    for workload, name, turn in turns(options):
        if results.done(workload, name, turn):
            continue
        if time.monotonic() - begin > options.seconds:
            print("benchmarks/run: out of time: --resume takes the rest",
                  file=sys.stderr)
            return
        try:
            line = take_turn(workload, name, options,
                             programs.get((workload, name)))
            said = f"{measure.quiet_median(line['ms'])[0]:.0f} ms a step"
        except RuntimeError as error:
            line = dict(failed=str(error))
            said = f"failed: {error}"
        results.add("turn", workload=workload, who=name, round=turn, **line)
        print(f"  {workload}, round {turn}, {name}: {said}", file=sys.stderr,
              flush=True)


def show(results):
    """Prints the tables, and writes them and the plot beside the results."""
    said = tables.document(results)
    stem = os.path.splitext(results.path)[0]
    for path, content in ((stem + ".md", said),
                          (stem + ".svg", plot.picture(results))):
        with open(path, "w") as file:
            file.write(content)
    print(said, end="")
    wrong = list(tables.faults(results))
    if wrong:
        sys.exit("\n".join(f"benchmarks/run: error: {line}"
                           for line in wrong))


def main():
    options = parse()
    try:
        if options.show:
            results = Results(options.show)
            if not results.of("run"):
                raise RuntimeError(f"{options.show} has no results")
            return show(results)
        os.makedirs(options.work, exist_ok=True)
        if not options.resume and os.path.exists(options.out):
            os.remove(options.out)
        options.python = torch_python()
        results = Results(options.out)
        results.start(describe(options))
        measure_limits(options, results)
        contend(options, results, compile_all(options, results))
        show(results)
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"benchmarks/run: error: {error}")


if __name__ == "__main__":
    main()
