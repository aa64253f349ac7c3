#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains W1 and W2 with PyTorch and with our executables, in turns.

Start it as benchmarks/run. The contenders alternate, round after round, so
that a machine that grows slower does so for all.
"""

import argparse
import os
import platform
import subprocess
import sys

import measure

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
MIB = 1 << 20

# As far as the losses of two contenders may part; bf16 is among them.
# Small enough that a few steps on random tokens do not diverge, where the
# losses of two correct programs part; peer.py has the same.
LEARNING_RATE = 1e-4
LOSS_RTOL = 2e-2

SEQUENCE = 256  # of both W1 and W2
BATCH = 4
VOCABULARY = 8192
TITLES = {"w1": "W1: GPT-2, 6 layers, 384, 6 heads",
          "w2": "W2: Llama, 6 layers, 512, ffn 1376, 8/4 heads"}

# Name -> ranks.
PEERS = {"eager": 1, "compile": 1, "fsdp2": 2, "fsdp2-compile": 2}
OURS = {"shardonnx-1": 1, "shardonnx-2": 2, "shardonnx-1-bf16": 1}
RATIOS = [("shardonnx-1", "eager"), ("shardonnx-2", "fsdp2"),
          ("shardonnx-1-bf16", "shardonnx-1")]
BF16 = ["--param-dtype=bf16", "--reduce-dtype=f32"]


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/run", description=__doc__.split("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=sorted(TITLES),
                        default=sorted(TITLES))
    parser.add_argument("--contenders", nargs="+",
                        choices=list(PEERS) + list(OURS),
                        default=["eager", "fsdp2"] + list(OURS))
    parser.add_argument("--steps", type=int, default=20,
                        help=f"of a round; the first {measure.WARM_UP} are "
                        "not counted")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", action=argparse.BooleanOptionalAction,
                        default=True, help="also compile a Llama of 8 B "
                        "parameters whose weights are a sparse file")
    parser.add_argument("--shardonnx", metavar="PROGRAM",
                        default=os.path.join(ROOT, "build", "bin",
                                             "shardonnx"))
    parser.add_argument("--compile-option", action="append", default=[],
                        metavar="OPTION", help="passed to shardonnx compile")
    parser.add_argument("--work", metavar="DIR",
                        default=os.path.join(ROOT, "build", "benchmarks"))
    parser.add_argument("--timeout", type=float, default=900,
                        metavar="SECONDS", help="for one contender's round")
    options = parser.parse_args()
    if options.steps <= measure.WARM_UP:
        parser.error(f"--steps: more than {measure.WARM_UP} are needed")
    return options


def peer_commands(mode, model, options, data, log):
    """One process a rank, cores dealt out evenly."""
    ranks = PEERS[mode]
    words = [options.python, os.path.join(HERE, "peer.py"), model, "--mode",
             mode, "--data", data, "--steps", str(options.steps), "--batch",
             str(BATCH), "--log", log]
    threads = str(max(1, cores() // ranks))
    shared = {"OMP_NUM_THREADS": threads, "WORLD_SIZE": str(ranks),
              "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(measure.free_port()),
              "HF_HUB_OFFLINE": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    return [(words, {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(ranks)]


def our_commands(name, program, options, data, log):
    """OMP_NUM_THREADS is left unset: the executable deals out the cores."""
    return [([program, "--data", data, "--steps", str(options.steps),
              "--lr", str(LEARNING_RATE), "--nproc", str(OURS[name]),
              "--log", log], {})]


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


def prepare(model, options, batch=BATCH, export_options=(), words=()):
    """Exports and compiles a model, prints the cost, returns the program."""
    graph = os.path.join(options.work, model + ".onnx")
    program = os.path.join(options.work, "-".join(
        [model] + [word.strip("-").replace("=", "-") for word in words]))
    if not os.path.exists(graph):
        subprocess.run([options.python,
                        os.path.join(ROOT, "models", "export.py"), model,
                        "-o", graph] + list(export_options), check=True)
    seconds, resident = measure.run_and_time(
        [options.shardonnx, "compile", graph, "-o", program,
         f"--batch={batch}", *words] + options.compile_option)
    print(f"- compiling {' '.join([model, *words])}: {seconds:.1f} s, "
          f"{resident / MIB:.0f} MiB resident", flush=True)
    return program


def ranks_of(name):
    return PEERS.get(name) or OURS[name]


def prepare_all(model, options):
    """The program that each of our contenders runs."""
    compiled, programs = {}, {}
    for name in options.contenders:
        if name in OURS:
            words = tuple(BF16 if name.endswith("bf16") else ())
            if words not in compiled:
                compiled[words] = prepare(model, options, words=words)
            programs[name] = compiled[words]
    return programs


def contend(model, programs, options, data):
    """All rounds of all contenders: times, memory and losses by name."""
    results = {name: dict(ms=[], rss=0, pss=0, losses=[])
               for name in options.contenders}
    for turn in range(options.rounds):
        for name, result in results.items():
            log = os.path.join(options.work, f"{model}-{name}.jsonl")
            commands = (peer_commands(name, model, options, data, log)
                        if name in PEERS else
                        our_commands(name, programs[name], options, data, log))
            watch = measure.ProcessMemory(ranks_of(name))
            steps = measure.run(commands, log, options.timeout, watch)
            if len(steps) != options.steps:
                raise RuntimeError(f"{name}: {len(steps)} steps in its log, "
                                   f"not {options.steps}")
            times = [s["step_ms"] for s in steps[measure.WARM_UP:]]
            result["ms"] += times
            result["rss"] = max(result["rss"], watch.peak[0])
            result["pss"] = max(result["pss"], watch.peak[1])
            result["losses"] = [s["loss"] for s in steps]
            print(f"  round {turn + 1}, {name}: median "
                  f"{measure.quiet_median(times)[0]:.0f} ms a step",
                  file=sys.stderr, flush=True)
    return results


def check_losses(results):
    """Contenders that see the same batches must show the same losses."""
    for ranks in (1, 2):
        names = [n for n in results if ranks_of(n) == ranks]
        for name in names[1:]:
            first, other = results[names[0]]["losses"], results[name]["losses"]
            worst = max(abs(a - b) / a for a, b in zip(first, other))
            if worst > LOSS_RTOL:
                raise RuntimeError(f"{name} and {names[0]} do not train the "
                                   f"same model: losses differ by {worst:.1e}")


def report(model, results):
    print(f"\n### {TITLES[model]}\n\n| | tokens/s | ms a step | quiet steps "
          "| RSS MiB a rank | PSS MiB a rank |\n| --- | --- | --- | --- | --- "
          "| --- |")
    speed = {}
    for name, result in results.items():
        median, share = measure.quiet_median(result["ms"])
        speed[name] = ranks_of(name) * BATCH * SEQUENCE / median * 1e3
        print(f"| {name} | {speed[name]:.0f} | {median:.0f} | {share:.0%} | "
              f"{result['rss'] / MIB:.0f} | {result['pss'] / MIB:.0f} |")
    lines = [(a, b) for a, b in RATIOS if a in results and b in results]
    if lines:
        print("\n| ratio | tokens/s | RSS | PSS |\n| --- | --- | --- | --- |")
    for ours, theirs in lines:
        memory = [results[ours][k] / results[theirs][k]
                  for k in ("rss", "pss")]
        print(f"| {ours} : {theirs} | {speed[ours] / speed[theirs]:.2f} | "
              f"{memory[0]:.2f} | {memory[1]:.2f} |")


def describe_machine(python):
    # Not imported here: a child's peak memory starts from its parent's.
    version = subprocess.run(
        [python, "-c", "import torch; print(torch.__version__, "
         "torch.backends.cpu.get_cpu_capability())"],
        capture_output=True, text=True, check=True).stdout.split()
    name = platform.processor() or platform.machine()
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short",
                             "HEAD"], capture_output=True, text=True)
    print(f"- machine: {name}, {cores()} cores, {version[1]}\n- PyTorch "
          f"{version[0]}, commit {commit.stdout.strip() or 'unknown'}")


def main():
    options = parse()
    os.makedirs(options.work, exist_ok=True)
    data = os.path.join(options.work, "tokens.bin")
    measure.write_tokens(data, VOCABULARY, SEQUENCE * 1024 + 1)
    try:
        options.python = torch_python()
        describe_machine(options.python)
        print(f"- {options.rounds} rounds of {options.steps} steps, f32, "
              f"{BATCH} x {SEQUENCE} tokens a rank and step")
        ours = set(options.contenders) & set(OURS)
        if ours and options.large:
            prepare("llama-8b", options, 1, ["--no-weights"])
        for model in options.models:
            programs = prepare_all(model, options)
            results = contend(model, programs, options, data)
            check_losses(results)
            report(model, results)
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"benchmarks/run: error: {error}")


if __name__ == "__main__":
    main()
