#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Damages checkpoints, and requires that every reader refuses them.

    damage.py TRAIN SHARDONNX TOKENS [--damages N] [--seed S]

Trains with 2 ranks and saves twice. Each damage is one bit of a file (the
index or a rank's), two files swapped (of two ranks, or of the two saves), or a
file that is cut. A reader accepts a checkpoint when it ends with 0 or leaves a
file: resume at 1, 2 and 3 ranks in turn, export to .safetensors and to .onnx,
tools/checkpoint-convert (where there is numpy). An intact copy must be accepted
by all of them. A refusal is one line of error.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONVERT = os.path.join(ROOT, "tools", "checkpoint-convert")
STEPS = (2, 4)  # of the two saves
# What checkpoint-convert says of a checkpoint that it has checked and cannot go
# on with.
NEEDS_TORCH = "PyTorch and safetensors are needed"


def numpy_python():
    """A Python that has numpy, or none."""
    for python in (sys.executable, os.path.join(ROOT, ".deps", "venv", "bin", "python")):
        if os.path.exists(python) and subprocess.run([python, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


class Readers:
    def __init__(self, train, shardonnx, tokens, folder):
        self.train, self.shardonnx, self.tokens, self.folder = train, shardonnx, tokens, folder
        self.python = numpy_python()
        self.turn = 0
        if not self.python:
            print("without numpy: checkpoint-convert is left out")

    def save(self, checkpoints):
        every = STEPS[1] - STEPS[0]
        subprocess.run([self.train, "--data", self.tokens, "--steps", str(STEPS[1]), "--nproc", "2", "--save", checkpoints,
                        "--save-every", str(every)], check=True, stdout=subprocess.DEVNULL)

    def commands(self, checkpoint):
        """(reader, words, the file it would leave)"""
        self.turn += 1
        resume = [self.train, "--data", self.tokens, "--steps", str(STEPS[1] + 1), "--nproc", str(self.turn % 3 + 1), "--resume", checkpoint]
        outputs = [os.path.join(self.folder, name) for name in ("out.safetensors", "out.onnx", "out.pt")]
        commands = [("resume", resume, None)]
        commands += [("export", [self.shardonnx, "export", checkpoint, "-o", output], output) for output in outputs[:2]]
        if self.python:
            commands.append(("checkpoint-convert", [self.python, CONVERT, checkpoint, outputs[2]], outputs[2]))
        return commands

    def check(self, checkpoint, intact, what):
        """The readers that did not do as they should."""
        wrong = []
        for reader, words, output in self.commands(checkpoint):
            done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            left = bool(output) and os.path.exists(output)
            if left:
                os.remove(output)
            accepted = done.returncode == 0 or left or NEEDS_TORCH in done.stderr
            refused = done.returncode == 1 and [": error: " in line for line in done.stderr.splitlines() if ": warning: " not in line] == [True]
            if accepted != intact or not (accepted or refused):
                wrong.append(reader)
                print(f"{what}: {reader} ended with {done.returncode}: {done.stderr.strip()}", file=sys.stderr)
        return wrong


def flip(chance, at):
    """One bit of one file."""
    path = os.path.join(at, chance.choice(sorted(os.listdir(at))))
    with open(path, "rb") as file:
        data = bytearray(file.read())
    byte, bit = chance.randrange(len(data)), chance.randrange(8)
    data[byte] ^= 1 << bit
    with open(path, "wb") as file:
        file.write(data)
    return f"bit {bit} of byte {byte} of {os.path.basename(path)}"


def cut(chance, at):
    path = os.path.join(at, chance.choice(sorted(os.listdir(at))))
    size = chance.randrange(os.path.getsize(path))
    os.truncate(path, size)
    return f"{os.path.basename(path)} cut to {size} bytes"


def swap(chance, at, other):
    """Files of two ranks, or one of another save."""
    names = sorted(os.listdir(at))
    if chance.random() < 0.5:
        ranks = [os.path.join(at, name) for name in names if name.startswith("rank-")]
        first, second = chance.sample(ranks, 2)
        os.rename(first, first + ".moved")
        os.rename(second, first)
        os.rename(first + ".moved", second)
        return "the files of two ranks swapped"
    name = chance.choice(names)
    os.remove(os.path.join(at, name))
    shutil.copy(os.path.join(other, name), os.path.join(at, name))
    return f"{name} of another save"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("train", "shardonnx", "tokens"):
        parser.add_argument(name)
    parser.add_argument("--damages", type=int, default=250)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        checkpoints, at = os.path.join(folder, "saved"), os.path.join(folder, "damaged")
        readers = Readers(arguments.train, arguments.shardonnx, arguments.tokens, folder)
        readers.save(checkpoints)
        saves = [os.path.join(checkpoints, f"step-{step:08}") for step in STEPS]
        wrong = [reader for save in saves for reader in readers.check(save, True, "an intact checkpoint")]
        for turn in range(arguments.damages):
            source, other = chance.sample(saves, 2)
            shutil.copytree(source, at)
            kind = turn % 4  # half of them one bit
            what = swap(chance, at, other) if kind == 0 else cut(chance, at) if kind == 2 else flip(chance, at)
            wrong += readers.check(at, False, what)
            shutil.rmtree(at)
    print(f"{arguments.damages} damages, seed {arguments.seed}: {len(wrong)} times accepted or ended badly")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
