# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# With as many bytes as whole blocks computed again take, a budget that may use
# host memory is faster by so many percent.
#
#   check_budget_gain.py PERCENT MODEL [options of inspect]

import json
import subprocess
import sys

percent, *arguments = sys.argv[1:]


def plan(*extra):
    done = subprocess.run(
        ["shardonnx", "inspect", *arguments, *extra, "--json"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    memory = report["memory"]
    headroom = sum(item["bytes"] for item in memory["headroom"])
    return memory["peak_bytes"] + headroom, report["communication"]["step_ms"]


block_peak, block_step = plan("--recompute=block")
peak, step = plan(f"--memory-budget={block_peak}", "--offload=activations")
print(f"blocks: {block_peak} bytes, {block_step} ms; budget: {peak} bytes, {step} ms")
assert peak <= block_peak
assert block_step >= (1 + float(percent) / 100) * step
