#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles what record.py wrote, and compares with ONNX Runtime and PyTorch.

    run.py [FOLDER] [--shardonnx build/bin/shardonnx] [--filter REGEX]
           [--tensor T] [--jobs N] [--results FILE.json]

A variant passes if it compiles, if its attention and its norms are single ops,
if its forward pass equals ONNX Runtime's and if 20 steps of training follow
PyTorch. What the exporter or ONNX Runtime refused is not run. Prints a table;
exits non-zero if a variant fails.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

import variants

sys.path.insert(0, os.path.join(os.path.dirname(variants.HERE), "training"))

import check

NORM_RTOL = 2e-3


class Failed(Exception):
    """What a variant does not do, in one line."""


def call(words, timeout, **more):
    """Standard output of a command that must succeed."""
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.PIPE, timeout=timeout, **more)
    except subprocess.TimeoutExpired:
        raise Failed(f"{os.path.basename(words[0])} {words[1]} hangs")
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).split("\n")[-1]
        raise Failed(f"{last or 'no message'} (exit {done.returncode})")
    return done.stdout + done.stderr


class Variant:
    def __init__(self, recorded, folder, scratch, options):
        self.recorded = recorded
        self.name = recorded["name"]
        self.options = options
        self.folder = folder
        self.model = os.path.join(folder, self.name + ".onnx")
        self.data = os.path.join(folder, self.name + ".npz")
        self.scratch = os.path.join(scratch, self.name)
        words = recorded["words"].split()
        self.shape = [f"--batch={variants.BATCH}"]
        if "--seq" in words:
            self.shape.append("--seq=32")
        if "logits" in recorded:
            self.shape.append(f"--logits={recorded['logits']}")

    def call(self, *words, **more):
        return call(list(words), self.options.timeout, **more)

    def raised(self):
        """How often each op stands in the raised graph."""
        text = self.call(self.options.shardonnx, "compile", self.model,
                         "--emit=nn", *self.shape)
        counts = collections.Counter(re.findall(r"\bnn\.(\w+)", text))
        counts["norm"] = counts["rms_norm"] + counts["layer_norm"]
        counts["unrecognised softmax"] = counts["softmax"]
        for key, expected in self.recorded["ops"].items():
            if counts[key] != expected:
                raise Failed(f"{counts[key]} {key} ops in the raised graph, "
                             f"expected {expected}")
        return dict(counts)

    def forward(self):
        """The largest error of an output against ONNX Runtime's."""
        import numpy

        recorded = numpy.load(self.data)
        os.makedirs(self.scratch, exist_ok=True)
        words, worst = [], 0.0
        for key in recorded.files:
            kind, name = key.split(".", 1)
            if kind == "in":
                path = os.path.join(self.scratch, name + ".in.npy")
                numpy.save(path, recorded[key])
                words += ["--input", f"{name}={path}"]
        self.call(self.options.shardonnx, "eval", self.model, *words,
                  "--output-dir", self.scratch)
        for key in recorded.files:
            kind, name = key.split(".", 1)
            if kind == "out":
                found = numpy.load(os.path.join(self.scratch, name + ".npy"))
                worst = max(worst, difference(found, recorded[key]))
        if not worst <= variants.FORWARD_TOLERANCE:
            raise Failed(f"forward is off by {worst:.1e}")
        return worst

    def train(self):
        """The largest errors of losses and gradient norms."""
        program, log = self.scratch + ".exe", self.scratch + ".jsonl"
        tensor = self.options.tensor
        mesh = [f"--mesh=tensor:{tensor}"] if tensor > 1 else []
        said = self.call(self.options.shardonnx, "compile", self.model, "-o",
                         program, *self.shape, *mesh)
        if "not trained" in said:
            raise Failed(said.strip().split("\n")[0])
        data = (os.path.join(self.folder, self.recorded["data"])
                if "data" in self.recorded else os.path.join(
                    variants.ROOT, "models", "data", "tokens.bin"))
        ranks = max(tensor, 2)
        self.call(program, "--data", data, "--log", log, "--nproc", str(ranks),
                  "--steps", str(variants.STEPS), "--accumulate",
                  str(variants.GLOBAL_BATCH // variants.BATCH
                      // (ranks // tensor)),
                  env=dict(os.environ, SHARDONNX_NUM_THREADS="1"))
        loss, norm, faults = check.compare(check.read_log(log), self.recorded,
                                           variants.LOSS_RTOL, NORM_RTOL)
        if faults:
            raise Failed(f"training: {faults[0]} ({len(faults)} in all)")
        return loss, norm

    def run(self):
        """One row of the table."""
        row = dict(name=self.name)
        for key in ("exporter", "onnxruntime"):
            if key in self.recorded:
                return dict(row, status=f"refused by {key}",
                            message=self.recorded[key])
        try:
            row["raised"] = self.raised()
            if not self.options.no_forward:
                row["forward"] = self.forward()
            row["loss"], row["grad_norm"] = self.train()
        except (Failed, OSError, ValueError) as error:
            message = str(error).replace(self.folder + os.sep, "")
            return dict(row, status="FAIL", message=message)
        return dict(row, status="ok")


def difference(found, expected):
    """Relative to the largest expected number where that is above one."""
    import numpy

    if found.shape != expected.shape:
        return float("inf")
    scale = max(1.0, float(numpy.abs(expected).max(initial=0)))
    return float(numpy.abs(found.astype(numpy.float64) - expected).max(
        initial=0)) / scale


def describe(row):
    numbers = [f"{row[key]:7.1e}" if key in row else f"{'-':>7}"
               for key in ("forward", "loss", "grad_norm")]
    text = f"{row['status']:22} {' '.join(numbers)}  {row['name']}"
    return text + (f"\n    {row['message']}" if "message" in row else "")


def load(folder, pattern):
    """What was recorded, in the order of variants.py."""
    found = []
    for name in variants.variants(lambda n: re.search(pattern, n)):
        path = os.path.join(folder, name + ".json")
        if os.path.exists(path):
            with open(path) as file:
                found.append(json.load(file))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", metavar="FOLDER", nargs="?",
                        default=variants.RECORDED,
                        help="what record.py wrote (default: recorded/)")
    parser.add_argument("--shardonnx", metavar="PROGRAM",
                        default=os.path.join(variants.ROOT, "build", "bin",
                                             "shardonnx"))
    parser.add_argument("--filter", default="", metavar="REGEX")
    parser.add_argument("--jobs", type=int, default=2, metavar="N")
    parser.add_argument("--results", metavar="FILE",
                        help="write the rows of the table as JSON")
    parser.add_argument("--no-forward", action="store_true",
                        help="leave out the comparison with ONNX Runtime")
    parser.add_argument("--tensor", type=int, default=1, metavar="T",
                        help="train on a tensor axis of so many ranks")
    parser.add_argument("--timeout", type=float, default=120,
                        metavar="SECONDS", help="for one command")
    options = parser.parse_args()
    recorded = load(options.folder, options.filter)
    print(f"{'':22} forward loss    norm     (largest errors)")
    rows = []
    with tempfile.TemporaryDirectory() as scratch, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(lambda r: Variant(r, options.folder, scratch,
                                              options).run(), recorded):
            print(describe(row), flush=True)
            rows.append(row)
    if options.results:
        with open(options.results, "w") as file:
            json.dump(rows, file, indent=1)
            file.write("\n")
    counts = collections.Counter(row["status"] for row in rows)
    print(", ".join(f"{n} {status}" for status, n in sorted(counts.items())))
    sys.exit(1 if counts["FAIL"] or not rows else 0)


if __name__ == "__main__":
    main()
