# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A plan holds together: its memory is that of `inspect` for the same program, a
# rank's kinds add up to its peak, speed follows from time, the chosen way fits
# and none that fits is faster by more than a thousandth.
#
#   check_plan.py MODEL RANKS DEVICE [compile options]

import json
import subprocess
import sys


def run(command, *arguments):
    done = subprocess.run(
        ["shardonnx", command, *arguments, "--json"], capture_output=True, check=True
    )
    return json.loads(done.stdout)


model, ranks, device, *options = sys.argv[1:]
plan = run("plan", model, "--gpus", ranks, "--device", device, *options)
for way in plan["plans"]:
    assert sum(way["memory"].values()) == way["memory_bytes"], way
    tokens = way["tokens_per_s_per_gpu"] * way["step_ms"] / 1e3
    assert abs(tokens - round(tokens)) < 1e-6 * tokens, way
    assert abs(way["work_ms"] + way["exposed_ms"] - way["step_ms"]) < 1e-9
    assert way["offload"] == "none"
    shown = run(
        "inspect", model, "--nproc", ranks, f"--device={device}",
        f"--strategy={way['strategy']}", f"--recompute={way['recompute']}", *options,
    )  # fmt: skip
    assert shown["memory"]["peak_bytes"] == way["memory_bytes"], way
    assert abs(shown["communication"]["step_ms"] - way["step_ms"]) < 1e-6, way
best = plan["plans"][plan["chosen"]]
assert best["fits"]
assert f"--strategy={best['strategy']}" in plan["command"]
fastest = max(way["tokens_per_s_per_gpu"] for way in plan["plans"] if way["fits"])
assert best["tokens_per_s_per_gpu"] >= fastest * (1 - 1e-3)
print(len(plan["plans"]), "ways")
