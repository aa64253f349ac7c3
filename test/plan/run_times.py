#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Our own runs on this machine's CPU against `inspect --device`: step times of
# models that the calibration has not seen, by ranks, strategy, dtype and what is
# computed again.
#
#   run_times.py MODEL.onnx=BATCH... [--device FILE.json] [--ranks 1,2,4]
#                [--strategies all|NAME,...] [--dtypes f32,bf16]
#                [--recompute block,selective] [--table FILE.md]
#                [--folder DIR [--seconds N]]
#
# Without --device the machine is calibrated first. Of each run the quarter of the
# steps that was disturbed least counts. Nothing else may run: each run waits for
# an idle machine, and is repeated where it is not idle behind it. The bars: a
# mean error of 0.05, a worst of 0.12. --table writes the rows between the marks of
# a page. With --folder programs, calibration and measured times are kept there,
# and the next call goes on with what is missing; --seconds ends it early, with
# exit code 3.

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")
STRATEGIES = ("full_shard", "shard_grad_op", "shard_opt", "no_shard",
              "hybrid_shard", "hybrid_shard_zero2")  # fmt: skip
MEAN, WORST = 0.05, 0.12
BEGIN, END = "<!-- run_times.py writes what follows -->", "<!-- end of runs -->"
IDLE, LOOKS, PATIENCE, TRIES = 0.93, 2, 60, 5
UNFINISHED = 3


def call(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def ticks():
    """Of all processors since the start: idle ones, and all."""
    with open("/proc/stat") as file:
        numbers = [int(word) for word in file.readline().split()[1:9]]
    return numbers[3] + numbers[4], sum(numbers)


def becomes_idle(seconds):
    """Whether the machine is, for half a second within so many."""
    end, good, before = time.time() + seconds, 0, ticks()
    while time.time() < end:
        time.sleep(0.25)
        now = ticks()
        idle = (now[0] - before[0]) / max(1, now[1] - before[1])
        good = good + 1 if idle > IDLE else 0
        before = now
        if good == LOOKS:
            return True
    return False


def undisturbed(work):
    """What work() gives on a machine that does nothing else."""
    for _ in range(TRIES):
        if becomes_idle(PATIENCE):
            result = work()
            if becomes_idle(2):
                return result
    sys.exit("run_times.py: other programs run on this machine")


class Configuration:
    def __init__(self, model, batch, dtype, strategy, recompute, ranks):
        self.model, self.batch, self.dtype = model, batch, dtype
        self.strategy, self.recompute, self.ranks = strategy, recompute, ranks
        name = os.path.splitext(os.path.basename(model))[0]
        self.words = (name, strategy, recompute, dtype)
        self.program = f"{name}-{dtype}-{strategy}-{recompute}"
        self.replicas = (["--replicas=2"] if ranks > 1 and
                         strategy.startswith("hybrid") else [])  # fmt: skip

    def compile(self, shardonnx, folder):
        path = os.path.join(folder, self.program)
        if not os.path.exists(path):
            call(shardonnx, "compile", self.model, f"--batch={self.batch}",
                 f"--strategy={self.strategy}", f"--param-dtype={self.dtype}",
                 f"--recompute={self.recompute}", "--trainable=.*",
                 "-o", path)  # fmt: skip
        return path

    def measure(self, path, steps, folder):
        log = os.path.join(folder, "log.jsonl")
        if os.path.exists(log):
            os.remove(log)
        call(path, "--data", os.path.join(ROOT, "models/data/tokens.bin"),
             "--init=random", f"--steps={steps}", f"--nproc={self.ranks}",
             "--log", log, *self.replicas)  # fmt: skip
        with open(log) as file:
            times = sorted(json.loads(line)["step_ms"]
                           for line in list(file)[2:])  # fmt: skip
        return times[len(times) // 4]

    def predict(self, shardonnx, path, device):
        report = json.loads(
            call(shardonnx, "inspect", path, f"--nproc={self.ranks}",
                 "--device", device, "--json", *self.replicas))  # fmt: skip
        return report["communication"]["step_ms"]


def configurations(options):
    """One rank shards nothing; hybrid strategies want an even number."""
    for pair in options.models:
        model, batch = pair.rsplit("=", 1)
        for dtype in options.dtypes.split(","):
            ways = [(strategy, "none") for strategy in options.strategies]
            ways += [("full_shard", word) for word in options.recompute]
            for strategy, recompute in ways:
                for ranks in options.ranks:
                    hybrid = strategy.startswith("hybrid")
                    if ranks == 1 and strategy != "full_shard" or \
                            hybrid and ranks % 2:
                        continue
                    yield Configuration(model, batch, dtype, strategy,
                                        recompute, ranks)


def measured(options, folder, chosen):
    """Milliseconds of each, by program and ranks; less where time is over."""
    kept, times = os.path.join(folder, "measured.jsonl"), {}
    if os.path.exists(kept):
        with open(kept) as file:
            for row in map(json.loads, file):
                times[row["program"], row["ranks"]] = row["ms"]
    end = time.time() + (options.seconds or float("inf"))
    for one in chosen:
        if (one.program, one.ranks) in times:
            continue
        if time.time() > end:
            break
        path = one.compile(options.shardonnx, folder)
        ms = undisturbed(lambda: one.measure(path, options.steps, folder))
        times[one.program, one.ranks] = ms
        with open(kept, "a") as file:
            file.write(json.dumps({"program": one.program,
                                   "ranks": one.ranks, "ms": ms}) + "\n")
    return times


def table(rows):
    yield "| model | strategy | recompute | dtype | ranks | measured ms | predicted | error |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for one, real, predicted in rows:
        words = " | ".join(map(str, (*one.words, one.ranks)))
        error = predicted / real - 1
        yield f"| {words} | {real:.1f} | {predicted:.1f} | {error:+.1%} |"


def compare(options, folder):
    device = options.device or os.path.join(folder, "machine.json")
    if not os.path.exists(device):
        undisturbed(lambda: call(options.shardonnx, "plan", "--calibrate",
                                 device))  # fmt: skip
    chosen = list(configurations(options))
    times = measured(options, folder, chosen)
    rows = []
    for one in chosen:
        if (one.program, one.ranks) in times:
            path = one.compile(options.shardonnx, folder)
            rows.append((one, times[one.program, one.ranks],
                         one.predict(options.shardonnx, path, device)))
    return rows, len(chosen) - len(rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx=BATCH")
    parser.add_argument("--shardonnx",
                        default=os.path.join(ROOT, "build/bin/shardonnx"))
    parser.add_argument("--device", metavar="FILE.json")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--strategies", default="all")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--recompute", default="")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--table", metavar="FILE.md")
    parser.add_argument("--folder", metavar="DIR")
    parser.add_argument("--seconds", type=float)
    options = parser.parse_args()
    options.ranks = [int(word) for word in options.ranks.split(",")]
    options.strategies = (STRATEGIES if options.strategies == "all"
                          else options.strategies.split(","))  # fmt: skip
    options.recompute = [word for word in options.recompute.split(",") if word]
    if options.folder:
        os.makedirs(options.folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        rows, missing = compare(options, options.folder or temporary)
    lines = list(table(rows))
    errors = [abs(predicted / real - 1) for _, real, predicted in rows]
    mean, worst = sum(errors) / max(1, len(errors)), max(errors, default=0)
    summary = f"{len(rows)} runs: mean error {mean:.1%}, worst {worst:.1%}"
    print("\n".join(lines + ["", summary]))
    if missing:
        print(f"{missing} are not measured yet")
    if options.table:
        with open(options.table) as file:
            before, rest = file.read().split(BEGIN)
        lines = "\n".join([BEGIN, "", summary, "", *lines, "", END])
        with open(options.table, "w") as file:
            file.write(before + lines + rest.split(END)[1])
    sys.exit(UNFINISHED if missing else mean > MEAN or worst > WORST)


if __name__ == "__main__":
    main()
