#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains people's own modules, by every exporter setting, as PyTorch does.

    models/make_env
    .deps/torch/bin/python test/training/modules/run.py [FOLDER]
        [--filter REGEX] [--setting NAME] [--annotated] [--jobs N]

Each module of this folder is exported with each setting of reference.py,
compiled and trained for 20 steps. A run is `ok` if losses are PyTorch's within
1e-5 and gradient norms within 1e-4, or ends with one line of why (`stopped`);
`exporter` did not make a file. It may differ where the compiler has said what
the file does not hold, in a warning (`warned`) or that it does not say what
requires a gradient (`noted`). `OFF` differs silently, `BAD` ends otherwise.
FOLDER (default: build/modules) keeps what was exported and recorded, which is
not made again. --annotated adds to each file what models/shardonnx_export.py
knows of its module. Exits non-zero if a run is off or ends badly.
"""

import argparse
import collections
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.append(os.path.dirname(HERE))

import check
import reference
import registry

LOSS_RTOL = 1e-5
NORM_RTOL = 1e-4

# What a message to a user does not say: these are the compiler's own words.
INTERNAL = re.compile(r"internal|'(nn|fsdp|exec|onnx|llvm|func)\.|Assertion|"
                      r"Stack dump|bad_alloc|signal")


def call(words, timeout):
    """Exit status, or -1 for a hang, and what was said."""
    environment = dict(os.environ, SHARDONNX_NUM_THREADS="1")
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, timeout=timeout,
                              env=environment)
    except subprocess.TimeoutExpired:
        return -1, "hangs"
    return done.returncode, done.stdout.strip()


def stopped(status, said):
    """The row of a program that ends with an error: one line of our own."""
    errors = [line for line in said.split("\n") if "error:" in line]
    message = (errors or said.split("\n"))[-1]
    bad = status not in (1, 2) or len(errors) != 1 or INTERNAL.search(message)
    return dict(status="BAD" if bad else "stopped", message=message)


def run(name, setting, recorded, options, scratch):
    """One row of the table."""
    row = dict(name=name, setting=setting)
    if setting in recorded["refused"]:
        return row | dict(status="exporter",
                          message=recorded["refused"][setting])
    entry = registry.MODULES[name]
    stem = os.path.join(scratch, f"{name}.{setting}")
    model = os.path.join(options.folder, f"{name}.{setting}.onnx")
    if options.annotated:
        model = reference.annotated(name, model, stem + ".onnx")
    loss = [] if entry.loss == "graph" else [f"--loss={entry.loss}"]
    status, said = call([options.shardonnx, "compile", model, "-o", stem,
                         *loss, *entry.compile], options.timeout)
    if status:
        return row | stopped(status, said)
    warned = [line for line in said.split("\n") if "warning:" in line]
    noted = [line for line in said.split("\n") if "requires_grad=False" in line]
    status, said = call([stem, "--data", os.path.join(
        options.folder, name + ".npz"), "--log", stem + ".jsonl", "--steps",
        str(reference.STEPS)], options.timeout)
    if status:
        return row | stopped(status, said)
    os.remove(stem)
    loss, norm, faults = check.compare(check.read_log(stem + ".jsonl"),
                                       recorded, LOSS_RTOL, NORM_RTOL)
    row |= dict(loss=loss, norm=norm, warnings=warned)
    if not faults:
        return row | dict(status="ok")
    if warned:
        return row | dict(status="warned", message=warned[0])
    if noted:
        return row | dict(status="noted", message=noted[0])
    return row | dict(status="OFF", message=faults[0])


def line(row):
    numbers = [f"{row[key]:7.1e}" if key in row else f"{'-':>7}"
               for key in ("loss", "norm")]
    text = f"{row['status']:8} {' '.join(numbers)}  {row['name']} " \
           f"{row['setting']}"
    return "\n    ".join([text, *row.get("message", "").split("\n")]).rstrip()


HEAD = """# People's own modules

What becomes of modules that people write themselves ([`test/training/modules`](../test/training/modules/README.md)), exported with a call
of `torch.onnx.export` that does nothing else: as it is (*default*), with `optimize=False` (*unoptimized*), by the older exporter
(`dynamo=False`, *legacy*) and by that without constant folding (*legacy-unfolded*). A number: 20 steps follow PyTorch, whose losses they
differ from by that much at most, relative. *stopped*: the compiler ends with one line that names the cause and what mends it. *exporter*:
PyTorch makes no file. *warned*, *noted*: training differs, and the compiler has said what the file does not hold; what remains of these is
`requires_grad=False` alone, of which an export has no trace. [Export your own model](export-your-model.md) says what writes it, and
what keeps parameters that an exporter folds.

"""

ANNOTATED = """
## With what the author says

The same files, to which `shardonnx_export.annotate` has added what it knows of the module.

"""


def table(rows, head):
    """The results for the manual: a line for each module."""
    by_name = collections.defaultdict(dict)
    for row in rows:
        by_name[row["name"]][row["setting"]] = (
            f"{row['loss']:.0e}" if row["status"] == "ok" else row["status"])
    settings = [s for s in reference.SETTINGS
                if any(s in cells for cells in by_name.values())]
    lines = ["| module | " + " | ".join(settings) + " |",
             "| --- " * (len(settings) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(cells.get(s, "") for s in settings)
              + " |" for name, cells in by_name.items()]
    counts = collections.Counter(row["status"] for row in rows)
    lines += ["", f"{len(rows)} runs: " + ", ".join(
        f"{n} {'follow PyTorch' if status == 'ok' else status}"
        for status, n in counts.most_common()) + "."]
    return head.split("\n")[:-1] + lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", metavar="FOLDER", nargs="?",
                        default=os.path.join(ROOT, "build", "modules"))
    parser.add_argument("--shardonnx", metavar="PROGRAM",
                        default=os.path.join(ROOT, "build", "bin",
                                             "shardonnx"))
    parser.add_argument("--filter", default="", metavar="REGEX",
                        help="only modules whose name matches")
    parser.add_argument("--setting", action="append",
                        choices=list(reference.SETTINGS),
                        help="only this one; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, metavar="N")
    parser.add_argument("--annotated", action="store_true",
                        help="with what shardonnx_export.py knows")
    parser.add_argument("--table", metavar="FILE.md",
                        help="write the table there as well; with "
                             "--annotated, behind what is there")
    parser.add_argument("--timeout", type=float, default=120,
                        metavar="SECONDS", help="for one command")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    settings = options.setting or list(reference.SETTINGS)
    names = [n for n in registry.MODULES if re.search(options.filter, n)]
    rows = []
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as runs, \
            tempfile.TemporaryDirectory() as scratch:
        made = [pool.submit(reference.record, name, options.folder, settings)
                for name in names]
        for name, future in zip(names, made):
            recorded = future.result()
            started = [runs.submit(run, name, setting, recorded, options,
                                   scratch) for setting in settings]
            for one in started:
                rows.append(one.result())
                print(line(rows[-1]), flush=True)
    counts = collections.Counter(row["status"] for row in rows)
    print(", ".join(f"{n} {status}" for status, n in sorted(counts.items())))
    if options.table:
        with open(options.table, "a" if options.annotated else "w") as file:
            head = ANNOTATED if options.annotated else HEAD
            file.write("\n".join(table(rows, head)) + "\n")
    sys.exit(1 if counts["OFF"] or counts["BAD"] else 0)


if __name__ == "__main__":
    main()
