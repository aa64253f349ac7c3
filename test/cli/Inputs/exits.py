# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs a program that must fail as the contract says: with the given exit code
# and exactly one error line on standard error (warnings and the start of a
# run's progress aside), which is passed on.
#
#   exits.py CODE [--limit BYTES] [--memory BYTES] [--to FILE] PROGRAM
#            ARGUMENTS…
#
# --limit: files may not grow beyond so much; --memory: the address space;
# --to: standard output.

import resource
import subprocess
import sys

arguments = sys.argv[1:]
code = int(arguments.pop(0))
limits, target = {}, subprocess.DEVNULL
KINDS = {"--limit": resource.RLIMIT_FSIZE, "--memory": resource.RLIMIT_AS}
while arguments[0] in (*KINDS, "--to"):
    option, value = arguments.pop(0), arguments.pop(0)
    if option in KINDS:
        limits[KINDS[option]] = int(value)
    else:
        target = open(value, "wb")


def before():
    for kind, limit in limits.items():
        resource.setrlimit(kind, (limit, limit))


done = subprocess.run(
    arguments, stdout=target, stderr=subprocess.PIPE, text=True, preexec_fn=before
)
errors = [line for line in done.stderr.splitlines() if ": error: " in line]
others = [
    line
    for line in done.stderr.splitlines()
    if ": error: " not in line and ": warning: " not in line
]
print(done.stderr, end="", file=sys.stderr)
if done.returncode != code:
    sys.exit(f"exits.py: the exit code is {done.returncode}, not {code}")
if len(errors) != 1 or others:
    sys.exit(f"exits.py: {len(errors)} errors and {len(others)} other lines")
