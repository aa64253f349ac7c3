# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What benchmarks/run has measured: a JSON line for each thing, in a file.

The first line says on what and of what. A run that was cut off goes on with
what is missing; tables and plots are made from the file alone.
"""

import json
import os

import measure
from contenders import CONTENDERS, WORKLOADS, ours

# As far as the losses of two contenders may part at any step.
LOSS_RTOL = {"f32": 1e-3, "bf16": 2e-2}


class Results:
    """The lines of a file, and their meaning."""

    def __init__(self, path):
        self.path = path
        self.lines = measure.steps_in(path)

    def add(self, kind, **line):
        line = dict(kind=kind, **line)
        self.lines.append(line)
        with open(self.path, "a") as file:
            print(json.dumps(line), file=file, flush=True)

    def start(self, header):
        """Begins a new file, or goes on with one of the same header. What
        only PyTorch has done does not depend on our commit."""
        if not self.lines:
            os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)
        for key, value in header.items() if self.lines else ():
            there = self.header.get(key)
            if there != value and (key != "commit" or self.has_ours()):
                raise RuntimeError(
                    f"{self.path} is of another run: {key} is {there!r} there "
                    f"and {value!r} here; start anew without --resume")
        if self.header != dict(kind="run", **header):
            self.add("run", **header)

    def has_ours(self):
        return bool(self.of("compile")) or any(
            ours(turn["who"]) for turn in self.of("turn"))

    @property
    def header(self):
        """The last one."""
        return next(iter(self.of("run")[::-1]), {})

    def of(self, kind):
        return [line for line in self.lines if line["kind"] == kind]

    def workloads(self):
        """Those with a turn, in the order of the tables."""
        seen = {turn["workload"] for turn in self.of("turn")}
        return [name for name in WORKLOADS if name in seen]

    def done(self, workload, who, turn):
        return any((line["workload"], line["who"], line["round"]) ==
                   (workload, who, turn) for line in self.of("turn"))

    def limits(self):
        """The best GFLOP/s of products by who multiplies and dtype."""
        best = {}
        for line in self.of("limit"):
            for key in ("f32", "bf16"):
                for what, value in line.get(key, {}).items():
                    at = (key, what)
                    best[at] = max(best.get(at, 0), value)
        return best

    def contenders(self, workload):
        """What the rounds of each contender come to, by name."""
        found = {}
        for name in CONTENDERS:
            turns = [line for line in self.of("turn")
                     if line["workload"] == workload and line["who"] == name]
            if turns:
                found[name] = summary(WORKLOADS[workload], name, turns)
        part_losses(found)
        # What is frozen is not multiplied as often as the count says.
        if not WORKLOADS[workload].lora:
            add_shares(found, self.limits())
        return found


def summary(work, name, turns):
    """One contender's rounds as one row."""
    good = [turn for turn in turns if "failed" not in turn]
    if not good:
        return dict(failed=turns[-1]["failed"])
    times = [ms for turn in good for ms in turn["ms"]]
    median, share = measure.quiet_median(times)
    amount = CONTENDERS[name].ranks * work.samples * work.length
    return dict(rate=amount / median * 1e3, ms=median, quiet=share,
                rss=max(turn["rss"] for turn in good),
                pss=max(turn["pss"] for turn in good),
                losses=good[-1]["losses"],
                flops=next((turn["flops"] for turn in good
                            if turn.get("flops")), None))


def part_losses(found):
    """By how much the losses of each part from the first with as many ranks,
    who sees the same samples."""
    reference = {}
    for name, row in found.items():
        if "failed" in row:
            continue
        ranks = CONTENDERS[name].ranks
        if ranks not in reference:
            reference[ranks] = name
            continue
        other = reference[ranks]
        row["parting"] = max(abs(a - b) / abs(b) for a, b in
                             zip(row["losses"], found[other]["losses"]))
        if row["parting"] > LOSS_RTOL[CONTENDERS[name].dtype]:
            row["differs"] = other


def add_shares(found, limits):
    """The share of the machine's limit of products, by the work that our
    executable counts for a sample."""
    flops = next((row["flops"] / CONTENDERS[name].ranks
                  for name, row in found.items() if row.get("flops")), None)
    for name, row in found.items():
        limit = limits.get((CONTENDERS[name].dtype, "product"))
        if flops and limit and "failed" not in row:
            rate = CONTENDERS[name].ranks * flops / row["ms"] * 1e-6
            row["share"] = rate / limit
