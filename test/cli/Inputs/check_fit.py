# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# --fit keeps what it promises: the options that it names, given by hand, make the
# same program; the planned memory of a rank is within the bytes, and it and
# the predicted step are those of the note; and no choice by hand that fits is
# predicted to be faster by more than a thousandth.
#
#   check_fit.py MODEL RANKS BYTES [--beside OPTIONS]... [compile options]
#
# BYTES may be `least`: what the error of a budget that is too small asks for.
# --beside: options that a person might have tried instead, in quotes.

import json
import re
import subprocess
import sys


def run(*arguments):
    done = subprocess.run(["shardonnx", *arguments], capture_output=True)
    return done.returncode, done.stdout, done.stderr.decode()


def made(*arguments):
    code, out, err = run(*arguments)
    assert code == 0, (arguments, err)
    return out, err


model, ranks, budget = sys.argv[1:4]
options, beside = [f"--world-size={ranks}"], []
rest = sys.argv[4:]
while rest:
    argument = rest.pop(0)
    if argument == "--beside":
        beside.append(rest.pop(0).split())
    else:
        options.append(argument)


def plan(*extra):
    report = json.loads(made("inspect", model, *options, *extra, "--json")[0])
    return report["memory"]["peak_bytes"], report["communication"]["step_ms"]


if budget == "least":
    code, _, error = run("compile", model, *options, "--fit=1MB", "--emit=grad")
    assert code == 1, code
    print(error)
    budget = re.search(r"; give --fit=(\d+),", error)[1]
budget = int(budget)
fit = f"--fit={budget}"
program, note = made("compile", model, *options, fit, "--emit=memory")
lines = note.splitlines()
assert len(lines) == 1, note
said = re.match(
    r"shardonnx: note: --fit: (--strategy=.*): \S+ \S+ of \S+ \S+ on a rank of "
    + ranks
    + r", (\S+) ms a step predicted$",
    lines[0],
)
assert said, note
print(lines[0])
chosen = said[1].split()
by_hand = [option for option in options if option.split("=")[0] not in said[1]]
options = by_hand
assert program == made("compile", model, *options, *chosen, "--emit=memory")[0]
peak, step = plan(*chosen)
assert peak <= budget, (peak, budget)
assert f"{step:.2f}" == said[2], (step, said[2])
for options_by_hand in beside:
    other_peak, other_step = plan(*options_by_hand)
    print(*options_by_hand, other_peak, other_step)
    assert other_peak > budget or other_step >= 0.999 * step, options_by_hand
