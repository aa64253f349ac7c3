#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains with what has few bits, shared in every way, and compares all bits of
masters and optimizer state with those that one rank has.

    run_bits.py [--shardonnx build/bin/shardonnx] [--all] [--filter REGEX]
                [--jobs N] [--threads N]

Each run is one of setting × strategy × ranks × where the state lies. Without
--all every setting runs with every strategy once, at one number of ranks and
one place or the other. What is gathered in few bits is also sent between two
machines: processes that are told so. The norm is left out (--clip-grad-norm 0):
the ranks' sums of squares are added in double, whose last bits depend on how
many there are.
"""

import argparse
import itertools
import os
import re
import sys
import tempfile

import cases
from machines import call_on_machines
from run_cases import FAILURES, STRATEGIES, Runner, add_options, table

STEPS = 4
BF16 = ["--param-dtype=bf16", "--master-dtype=bf16"]
SETTINGS = {
    "f32": ("gpt2-18", []),
    "bf16 state": ("gpt2-18", ["--optimizer-dtype=bf16"]),
    "int8 state": ("llama-18", ["--optimizer-dtype=int8"]),
    "bf16 masters": ("gpt2-18", BF16),
    "bf16 masters and state": ("llama-18", [*BF16, "--optimizer-dtype=bf16"]),
    "bf16 gathers": ("llama-18", ["--gather-dtype=bf16"]),
    "fp8 gathers": ("gpt2-18", ["--gather-dtype=fp8"]),
    "int8 gathers, masters, state": (
        "gpt2-18", [*BF16, "--gather-dtype=int8", "--optimizer-dtype=int8"]),
    "fp8 gathers and products": (
        "llama-sixteens", ["--param-dtype=bf16", "--gather-dtype=fp8",
                           "--matmul-dtype=fp8"]),
    "gathers by units": ("llama-sixteens", [cases.config("gathers.json")]),
    "bf16 reductions": ("llama-18", ["--reduce-dtype=bf16"]),
    "Muon": ("gpt2-18", ["--optimizer=muon"]),
    "Muon, bf16 state": ("llama-18", ["--optimizer=muon",
                                      "--optimizer-dtype=bf16"]),
    # The second half of a new adapter is zero, and the first's gradient then.
    "Muon, adapters": ("gpt2-18", ["--optimizer=muon", "--lora=4"]),
}
RANKS = (1, 2, 3, 4)
OFFLOAD = ("none", "optimizer")

MICROBATCHES = 12


class Dealing:
    """What a step sees, and how ranks share it so that one rank adds up the
    same numbers in the same order.

    Microbatch a of rank r is the (a·ranks + r)-th of the step. A reduction adds
    the gradients of all ranks, in their order, to those of the microbatches
    before: one rank's order. Replicas and machines add up their own first. Where
    each replica is one rank and has one microbatch, the order is the same; else
    ranks get the same sample, of whose gradients 2 or 4 add up exactly."""

    def __init__(self, strategy, ranks, machines):
        self.replicas = 1
        self.microbatches, self.samples = MICROBATCHES, None
        if strategy.startswith("hybrid") and ranks > 1:
            self.replicas = 2 if ranks % 2 == 0 else ranks
            self.microbatches = ranks
        if machines > 1 or 1 < self.replicas < ranks:
            self.microbatches, self.samples = ranks, 1

    def key(self):
        return self.microbatches, self.samples


class BitsRunner(Runner):
    def tokens(self, samples):
        """The data, or a file with so many samples of it."""
        if samples is None:
            return cases.data_path(cases.TOKENS)
        path = os.path.join(self.folder, f"{samples}.bin")
        with self.lock:
            if not os.path.exists(path):
                with open(cases.data_path(cases.TOKENS), "rb") as file:
                    tokens = file.read(2 * (32 * samples + 1))
                with open(path, "wb") as file:
                    file.write(tokens)
        return path

    def state(self, setting, strategy, ranks, offload, machines, dealing):
        """A hash of all that a checkpoint has of masters and state."""
        model, words = SETTINGS[setting]
        program = self.compile_once(
            cases.model_path(model),
            ["--batch=1", f"--strategy={strategy}", *words])
        words = [program, "--data", self.tokens(dealing.samples),
                 "--steps", str(STEPS), "--clip-grad-norm=0",
                 "--accumulate", str(dealing.microbatches // ranks),
                 "--save", self.new_log()]
        if strategy.startswith("hybrid"):
            words += ["--replicas", str(dealing.replicas)]
        if offload != "none":
            words += ["--offload", offload, "--offload-dir", self.folder]
        if machines > 1:
            said = call_on_machines(words, ranks, machines, self.environment,
                                    self.timeout)
        else:
            said = self.call([*words, "--nproc", str(ranks)], ranks)
        saved = re.search(r"^saved .*state ([0-9a-f]+)", said, re.MULTILINE)
        if not saved:
            raise RuntimeError("no state was saved")
        return saved[1]


class References:
    """One rank's states."""

    def __init__(self):
        self.states = {}

    def of(self, runner, setting, dealing):
        # Who asks while another computes them computes them, too.
        key = setting, dealing.key()
        if key not in self.states:
            self.states[key] = runner.state(setting, "full_shard", 1, "none",
                                            1, dealing)
        return self.states[key]


def combinations(whole):
    """Each setting with each strategy, ranks and place in turn; or all."""
    for (i, setting), (j, strategy) in itertools.product(
            enumerate(SETTINGS), enumerate(STRATEGIES)):
        near = (RANKS[(i + j) % len(RANKS)], OFFLOAD[(i + i // 2 + j) // 2 % 2])
        for other in itertools.product(RANKS, OFFLOAD) if whole else (near,):
            yield (setting, strategy, *other, 1)
    for setting, (_, words) in SETTINGS.items():
        if any(word.startswith("--gather-dtype") for word in words):
            for ranks in (2, 4):
                yield setting, "full_shard", ranks, "none", 2


def compare(runner, references, combination):
    """Whether the bits are the same, and the line of the table."""
    setting, strategy, ranks, offload, machines = combination
    name = ", ".join([setting, strategy, str(ranks)] +
                     ["offloaded"] * (offload != "none") +
                     [f"{machines} machines"] * (machines > 1))
    dealing = Dealing(strategy, ranks, machines)
    try:
        expected = references.of(runner, setting, dealing)
        same = runner.state(*combination, dealing) == expected
    except FAILURES as error:
        return False, f"FAIL  {name}\n      {error}"
    return same, f"{'ok' if same else 'FAIL':4}  {name}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_options(parser)
    parser.add_argument("--all", action="store_true",
                        help="every combination")
    parser.add_argument("--filter", default="", metavar="REGEX",
                        help="only runs whose line matches")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runner, references = BitsRunner(options, folder), References()
        print("      run (the same bits as one rank has)")
        results = table([lambda r, c=c: compare(r, references, c)
                         for c in combinations(options.all)
                         if re.search(options.filter, " ".join(map(str, c)))],
                        runner, options.jobs)
    failed = results.count(False)
    print(f"{len(results) - failed} of {len(results)} are as they should be")
    sys.exit(1 if failed or not results else 0)


if __name__ == "__main__":
    main()
