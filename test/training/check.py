#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares an executable's log with a recorded PyTorch run.

    check.py LOG.jsonl RECORDED.json [--loss-rtol X] [--norm-rtol X]

Every step must be there, in order, with its loss, gradient norm and learning
rate. Exit status 0: all within bounds; 1: not.
"""

import argparse
import json
import math
import sys

# The rate is a formula, not a measurement: only its rounding may differ.
RATE_RTOL = 1e-5
RATE_ATOL = 1e-12


def read_log(path):
    with open(path) as file:
        return [json.loads(line) for line in file if line.strip()]


def relative(measured, expected):
    """The relative error; anything that is not a finite number is infinite."""
    if not isinstance(measured, (int, float)) or not math.isfinite(measured):
        return math.inf
    return abs(measured - expected) / max(abs(expected), 1e-30)


def compare(log, recorded, loss_rtol, norm_rtol):
    """The largest errors of loss and norm, and what is wrong, as sentences."""
    faults = []
    steps = [line.get("step") for line in log]
    if steps != list(range(1, len(recorded["loss"]) + 1)):
        faults.append(f"steps in the log: {steps}, expected 1 to "
                      f"{len(recorded['loss'])}")
    worst = {"loss": 0.0, "grad_norm": 0.0}
    for key, bound in (("loss", loss_rtol), ("grad_norm", norm_rtol)):
        for line, expected in zip(log, recorded[key]):
            error = relative(line.get(key), expected)
            worst[key] = max(worst[key], error)
            if error > bound:
                faults.append(f"step {line.get('step')}: {key} "
                              f"{line.get(key)}, expected {expected:.7g}, off "
                              f"by {error:.1e}, allowed {bound:.0e}")
    for line, expected in zip(log, recorded["lr"]):
        error = abs(line.get("lr", math.inf) - expected)
        if error > RATE_ATOL + RATE_RTOL * expected:
            faults.append(f"step {line.get('step')}: lr {line.get('lr')}, "
                          f"expected {expected:.9g}")
    return worst["loss"], worst["grad_norm"], faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("log", metavar="LOG.jsonl")
    parser.add_argument("recorded", metavar="RECORDED.json")
    parser.add_argument("--loss-rtol", type=float, default=1e-4)
    parser.add_argument("--norm-rtol", type=float, default=1e-3)
    options = parser.parse_args()
    with open(options.recorded) as file:
        recorded = json.load(file)
    loss, norm, faults = compare(read_log(options.log), recorded,
                                 options.loss_rtol, options.norm_rtol)
    print(f"largest relative error: loss {loss:.1e}, grad_norm {norm:.1e}")
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
