#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random options of the compiler and of runs, against one plain rank.

    configurations.py [--shardonnx build/bin/shardonnx] [--seed N] [--trials N]
                      [--seconds N] [--only TRIAL | --first TRIAL]
                      [--case NAME] [--jobs N] [--emulator DIR]
                      [--report FILE.json] [--verbose]

Each trial trains a recorded case (test/training/cases.py) with drawn options
(options.py) for some steps: losses and norms must be those of one rank without
the options that say where things are computed, the peak must be the one that
`inspect` tells, and what is refused must be refused in one line. Of a trial
that ends badly, options are left out as long as it does. `--seed N --only
TRIAL` makes the same trial again.
"""

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import options as draws
import turns

import cases  # of test/training, which options.py has found
import check
from run_cases import emulated

STEPS = 6
THREADS = 2  # of all ranks of a run together
# Relative errors of losses and norms, by what a value is rounded to: the order
# of sums in f32, Muon's directions, which are of bf16, or more than those.
BARS = {"f32": (1e-5, 2e-4), "directions": (2e-4, 2e-3),
        "few bits": (2e-2, 2e-1)}
# A run adds the buffers of its data file to what `inspect` tells.
DATA_BYTES = 1 << 20
# What no user may see.
CRASH = re.compile(r"Assertion|Stack dump|Sanitizer|LLVM ERROR|terminate called"
                   r"|PLEASE submit|internal error|Traceback")

End = collections.namedtuple("End", "kind said")


class Refused(Exception):
    """One line, as it must be."""


class Bad(Exception):
    """`kind` is crash, hang, wrong, memory, or message."""

    def __init__(self, kind, said):
        super().__init__(said)
        self.kind = kind


class Machine:
    """Compiles and runs in a folder of its own."""

    def __init__(self, asked, folder):
        self.compiler = asked.shardonnx
        self.timeout = asked.timeout
        self.folder = folder
        self.target = ["--target=cuda", "--arch=sm_90"] if asked.emulator else []
        self.environment = dict(os.environ, OMP_WAIT_POLICY="passive")
        if asked.emulator:
            self.environment |= emulated(asked.emulator, folder)
            self.environment["SHARDONNX_EMULATOR_DEVICES"] = "8"
        self.numbers = itertools.count()
        self.lock = threading.Lock()
        self.references = {}  # futures: who asks first trains

    def path(self, name):
        with self.lock:
            return os.path.join(self.folder, f"{name}{next(self.numbers)}")

    def call(self, words, ranks=1):
        threads = str(max(1, THREADS // ranks))
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, errors="replace",
                timeout=self.timeout, stdin=subprocess.DEVNULL,
                env=self.environment | {"SHARDONNX_NUM_THREADS": threads})
        except subprocess.TimeoutExpired as late:
            raise Bad("hang", f"no end after {self.timeout:.0f} s") from late
        said = done.stderr.strip()
        if CRASH.search(said) or done.returncode not in (0, 1, 2):
            raise Bad("crash", f"exit status {done.returncode}: {said[-1500:]}")
        if done.returncode == 0:
            return done.stdout
        errors = [line for line in said.split("\n") if ": error: " in line]
        others = [line for line in said.split("\n")
                  if not re.search(": (error|warning|note): ", line)]
        if len(errors) != 1 or any(": error: " in line for line in others):
            raise Bad("message", f"{len(errors)} errors: {said[-1500:]}")
        raise Refused(errors[0].split(": error: ", 1)[1])

    def compile(self, case, words, batch):
        program = self.path("p")
        if "--batch" not in cases.MODELS[case["model"]]:
            words = [*words, f"--batch={batch}"]
        self.call([self.compiler, "compile", cases.model_path(case["model"]),
                   "-o", program, *case["compile"], *words, *self.target])
        return program

    def train(self, program, case, words, ranks, accumulate, steps=STEPS):
        log = self.path("log")
        self.call([program, "--data", cases.data_path(case["data"]), "--log",
                   log, "--steps", str(steps), "--accumulate", str(accumulate),
                   "--nproc", str(ranks), *case["run"], *words], ranks)
        lines = check.read_log(log)
        os.remove(log)
        return lines

    def reference(self, numbers):
        """The log of one plain rank; each is trained once."""
        case = numbers.case
        key = (case["name"], *numbers.words.compile, "|", *numbers.words.run)
        with self.lock:
            mine = key not in self.references
            future = self.references.setdefault(key,
                                                concurrent.futures.Future())
        if mine:
            try:
                program = self.compile(case, numbers.words.compile,
                                       case["batch"])
                future.set_result(self.train(
                    program, case, numbers.words.run, 1,
                    cases.GLOBAL_BATCH // case["batch"]))
                os.remove(program)
            except BaseException as error:  # for whoever waits, too
                future.set_exception(error)
        return future.result()


def compare(log, expected, rounding):
    keys = ("loss", "grad_norm", "lr")
    recorded = {key: [line[key] for line in expected] for key in keys}
    if not all(isinstance(x, (int, float)) for x in recorded["loss"]):
        return
    _, _, faults = check.compare(log, recorded, *BARS[rounding])
    if faults:
        raise Bad("wrong", "; ".join(faults[:3]))


def check_peak(machine, program, places, accumulate, log):
    """`inspect` tells the peak before the run."""
    words = [word for word in places.words.run if word.startswith("--offload")]
    said = machine.call([machine.compiler, "inspect", program, "--json",
                         f"--nproc={places.ranks}",
                         f"--replicas={places.replicas}",
                         f"--accumulate={accumulate}", *words], places.ranks)
    told = json.loads(said)["memory"]["peak_bytes"]
    ran = log[-1]["peak_bytes"]
    if not 0 <= ran - told <= DATA_BYTES:
        raise Bad("memory", f"inspect tells a peak of {told}, the run {ran}")


def go_on(machine, program, numbers, words, places, log):
    """The second half by other ranks, and maybe another program, from a
    checkpoint of the first."""
    case = numbers.case
    saved = machine.path("saved")
    groups = places.ranks // places.together
    half = ["--save", saved]
    accumulate = cases.GLOBAL_BATCH // (places.batch * groups)
    # Schedules are of the whole run: their end is not where this half ends.
    if any(word.startswith("--schedule") for word in words):
        return
    machine.train(program, case, [*words, *half], places.ranks, accumulate,
                  STEPS // 2)
    groups = places.resumed // places.together
    words = [word for word in words if not word.startswith("--replicas")]
    if places.other:
        os.remove(program)
        program = machine.compile(
            case, [*numbers.words.compile, *places.other], places.batch)
    rest = machine.train(
        program, case, [*words, "--resume", saved], places.resumed,
        cases.GLOBAL_BATCH // (places.batch * groups))
    if places.other:
        os.remove(program)
    compare(log[:STEPS // 2] + rest, log, numbers.rounding)


def offloaded(machine, words):
    if any(word.startswith("--offload") for word in words):
        return [*words, "--offload-dir", machine.folder]
    return words


def attempt(machine, numbers, places):
    """How a trial ends."""
    case = numbers.case
    groups = places.ranks // places.together
    accumulate = cases.GLOBAL_BATCH // (places.batch * groups)
    program = None
    try:
        expected = machine.reference(numbers)
        program = machine.compile(
            case, [*numbers.words.compile, *places.words.compile], places.batch)
        words = [*numbers.words.run, *places.words.run]
        if not machine.target:
            words = offloaded(machine, words)
        log = machine.train(program, case, words, places.ranks, accumulate)
        compare(log, expected, numbers.rounding)
        check_peak(machine, program, places, accumulate, log)
        if places.resumed:
            go_on(machine, program, numbers, words, places, log)
        return End("ok", "")
    except Refused as why:
        return End("refused", str(why))
    except Bad as bad:
        return End(bad.kind, str(bad))
    finally:
        if program and os.path.exists(program):
            os.remove(program)


def draw(asked, number):
    rng = np.random.default_rng([asked.seed, number])
    numbers = draws.draw_numbers(rng, asked.case)
    return numbers, draws.draw_places(rng, numbers.case)


def without(words, index):
    return [word for i, word in enumerate(words) if i != index]


def smaller(numbers, places):
    """Trials with one thing less."""
    if places.resumed:
        yield numbers, places._replace(resumed=0, other=())
    if places.other:
        yield numbers, places._replace(other=())
    for owner, give in ((numbers, lambda w: (numbers._replace(words=w), places)),
                        (places, lambda w: (numbers, places._replace(words=w)))):
        words = owner.words
        for i, word in enumerate(words.run):
            # The ranks would be others.
            if not word.startswith("--replicas") and word != "--betas":
                yield give(words._replace(run=without(words.run, i)))
        for i, word in enumerate(words.compile):
            if not word.startswith(("--mesh", "--strategy=hybrid")):
                yield give(words._replace(compile=without(words.compile, i)))


def shrink(machine, numbers, places, end):
    """The least that still ends as it did."""
    found = True
    while found:
        found = False
        for less in smaller(numbers, places):
            ended = attempt(machine, *less)
            if ended.kind == end.kind:
                (numbers, places), end, found = less, ended, True
                break
    return numbers, places, end


def text(numbers, places):
    case = numbers.case
    batch = ([] if "--batch" in cases.MODELS[case["model"]]
             else [f"--batch={places.batch}"])
    groups = places.ranks // places.together
    compile = [*case["compile"], *numbers.words.compile, *places.words.compile,
               *batch]
    run = [*case["run"], *numbers.words.run, *places.words.run,
           f"--nproc={places.ranks}",
           f"--accumulate={cases.GLOBAL_BATCH // (places.batch * groups)}"]
    resumed = f", resumed by {places.resumed}" if places.resumed else ""
    if places.other:
        resumed += f" of {' '.join(places.other)}"
    return (f"{case['name']}: compile {' '.join(compile)}; "
            f"run {' '.join(run)}{resumed}")


def trial(number, machine, asked):
    numbers, places = draw(asked, number)
    end = attempt(machine, numbers, places)
    if end.kind not in ("ok", "refused"):
        numbers, places, end = shrink(machine, numbers, places, end)
    return number, text(numbers, places), end


def trials(asked, machine):
    """Trials as they end: so many at most, and until the time is over."""
    most = asked.trials or (None if asked.seconds else 100)
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        yield from turns.ended(pool, asked, most, 1, trial, machine, asked)


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--shardonnx", metavar="PROGRAM",
                        default=os.path.join(cases.ROOT, "build", "bin",
                                             "shardonnx"))
    parser.add_argument("--seed", type=int, help="default: drawn")
    parser.add_argument("--trials", type=int, metavar="N",
                        help="at most so many (100 without --seconds)")
    parser.add_argument("--seconds", type=float, metavar="N")
    parser.add_argument("--case", metavar="NAME", choices=draws.CASES)
    parser.add_argument("--only", type=int, metavar="TRIAL")
    parser.add_argument("--first", type=int, metavar="TRIAL", default=0,
                        help="begin with this one")
    parser.add_argument("--jobs", type=int, default=1, metavar="N",
                        help="trials side by side")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS",
                        help="for one command")
    parser.add_argument("--emulator", metavar="DIR",
                        help="compile for CUDA and run on the emulated device")
    parser.add_argument("--report", help="write the counts here")
    parser.add_argument("--verbose", action="store_true",
                        help="a line for every trial")
    asked = parser.parse_args()
    if asked.seed is None:
        asked.seed = secrets.randbelow(1 << 31)
    return asked


def main():
    asked = parse_options()
    begin = time.monotonic()
    print(f"seed {asked.seed}", flush=True)
    ends = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number, what, end in trials(asked, Machine(asked, folder)):
            ends[end.kind] += 1
            bad = end.kind not in ("ok", "refused")
            if bad or asked.verbose:
                print(f"{'FAIL ' if bad else ''}{end.kind} --seed {asked.seed} "
                      f"--only {number}: {what}\n  {end.said}".rstrip(),
                      flush=True)
    count = sum(ends.values())
    bad = count - ends["ok"] - ends["refused"]
    said = ", ".join(f"{n} {kind}" for kind, n in sorted(ends.items()))
    print(f"{count} configurations: {said}, "
          f"in {time.monotonic() - begin:.0f} s (seed {asked.seed})")
    if asked.report:
        with open(asked.report, "w") as file:
            json.dump({"passed": ends["ok"] + ends["refused"], "failed": bad},
                      file)
    return 1 if bad or not ends["ok"] else 0


if __name__ == "__main__":
    sys.exit(main())
