#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Our own runs on this machine's CPU against `inspect --device`: step times of
# models that the calibration has not seen, by ranks, strategy and dtype.
#
#   run_times.py MODEL.onnx=BATCH... [--device FILE.json] [--ranks 1,2,4]
#                [--strategies all|NAME,...] [--dtypes f32,bf16] [--table FILE.md]
#
# Without --device the machine is calibrated first. Of each run the quarter of the
# steps that was disturbed least counts, as it does in the calibration. The bars: a
# mean error of 0.05, a worst of 0.12. --table writes the rows between the marks of
# a page. Nothing else should run on the machine.

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")
STRATEGIES = ("full_shard", "shard_grad_op", "shard_opt", "no_shard",
              "hybrid_shard", "hybrid_shard_zero2")  # fmt: skip
MEAN, WORST = 0.05, 0.12
BEGIN, END = "<!-- run_times.py writes what follows -->", "<!-- end of runs -->"


def call(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def measured(program, ranks, replicas, steps, folder):
    log = os.path.join(folder, "log.jsonl")
    if os.path.exists(log):
        os.remove(log)
    call(program, "--data", os.path.join(ROOT, "models/data/tokens.bin"),
         "--init=random", f"--steps={steps}", f"--nproc={ranks}", "--log", log,
         *replicas)  # fmt: skip
    with open(log) as file:
        times = sorted(json.loads(line)["step_ms"] for line in list(file)[2:])
    return times[len(times) // 4]


def compare(options, folder, model, batch, strategy, dtype):
    """A row for each number of ranks."""
    program = os.path.join(folder, "program")
    call(options.shardonnx, "compile", model, f"--batch={batch}",
         f"--strategy={strategy}", f"--param-dtype={dtype}", "--trainable=.*",
         "-o", program)  # fmt: skip
    for ranks in options.ranks:
        hybrid = strategy.startswith("hybrid")
        if ranks == 1 and strategy != "full_shard" or hybrid and ranks % 2:
            continue
        replicas = ["--replicas=2"] if hybrid else []
        report = json.loads(
            call(options.shardonnx, "inspect", program, f"--nproc={ranks}",
                 "--device", options.device, "--json", *replicas))  # fmt: skip
        predicted = report["communication"]["step_ms"]
        real = measured(program, ranks, replicas, options.steps, folder)
        row = (os.path.splitext(os.path.basename(model))[0], strategy, dtype,
               ranks, real, predicted, predicted / real - 1)  # fmt: skip
        print("{} {} {} {}: {:.1f} ms, predicted {:.1f}, {:+.1%}".format(*row),
              flush=True)  # fmt: skip
        yield row


def table(rows):
    yield "| model | strategy | dtype | ranks | measured ms | predicted | error |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for *words, real, predicted, error in rows:
        words = " | ".join(map(str, words))
        yield f"| {words} | {real:.1f} | {predicted:.1f} | {error:+.1%} |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx=BATCH")
    parser.add_argument("--shardonnx",
                        default=os.path.join(ROOT, "build/bin/shardonnx"))
    parser.add_argument("--device", metavar="FILE.json")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--strategies", default="all")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--table", metavar="FILE.md")
    options = parser.parse_args()
    options.ranks = [int(word) for word in options.ranks.split(",")]
    strategies = (STRATEGIES if options.strategies == "all"
                  else options.strategies.split(","))  # fmt: skip
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        if not options.device:
            options.device = os.path.join(folder, "machine.json")
            call(options.shardonnx, "plan", "--calibrate", options.device)
        for pair in options.models:
            model, batch = pair.rsplit("=", 1)
            for dtype in options.dtypes.split(","):
                for strategy in strategies:
                    rows += compare(options, folder, model, batch, strategy,
                                    dtype)
    errors = [abs(row[-1]) for row in rows]
    mean, worst = sum(errors) / len(errors), max(errors)
    summary = f"{len(rows)} runs: mean error {mean:.1%}, worst {worst:.1%}"
    print(summary)
    if options.table:
        with open(options.table) as file:
            before, rest = file.read().split(BEGIN)
        lines = "\n".join([BEGIN, "", summary, "", *table(rows), "", END])
        with open(options.table, "w") as file:
            file.write(before + lines + rest.split(END)[1])
    sys.exit(mean > MEAN or worst > WORST)


if __name__ == "__main__":
    main()
