# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# --memory-budget from the least that there is to more than the step takes: the
# peak is within each budget, and more memory never makes the predicted step
# slower, nor a smaller budget the peak higher, nor a step with all of it slower
# than one without a budget.
#
#   check_budget_curve.py POINTS MODEL [compile options]

import json
import re
import subprocess
import sys

points, *arguments = sys.argv[1:]


def inspect(*extra):
    return subprocess.run(
        ["shardonnx", "inspect", *arguments, *extra, "--json"],
        capture_output=True,
        text=True,
    )


def plan(*extra):
    done = inspect(*extra)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    memory = report["memory"]
    headroom = sum(item["bytes"] for item in memory["headroom"])
    return memory["peak_bytes"] + headroom, report["communication"]["step_ms"]


refused = inspect("--memory-budget=1kB")
assert refused.returncode == 1, refused.stdout
least = int(re.search(r" takes at least \S+ \S+ \((\d+) bytes\)", refused.stderr)[1])
free_peak, free_step = plan()
peaks, steps = [], []
for i in range(int(points)):
    budget = least + (int(1.01 * free_peak) - least) * i // (int(points) - 1)
    peak, step = plan(f"--memory-budget={budget}")
    print(f"{budget} bytes: peak {peak}, {step:.3f} ms")
    assert peak <= budget, (peak, budget)
    assert not peaks or peak >= peaks[-1], (budget, peak, peaks)
    assert not steps or step <= steps[-1] * (1 + 1e-9), (budget, step, steps)
    peaks.append(peak)
    steps.append(step)
assert steps[0] > steps[-1], "the budgets make no difference"
assert steps[-1] <= free_step * (1 + 1e-9), (steps[-1], free_step)
