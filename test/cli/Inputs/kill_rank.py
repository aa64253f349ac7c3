# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Starts a long run on 2 ranks, kills rank 1 once the log has a step, and checks
# that all ends within 30 s with code 1 and one line that names the rank, and
# that every line of the log is whole.
#
#   kill_rank.py LOG TRAIN ARGUMENTS…

import json
import os
import signal
import subprocess
import sys
import time

log, command = sys.argv[1], sys.argv[2:]
run = subprocess.Popen(
    command + ["--nproc", "2", "--steps", "1000000", "--log", log],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.PIPE,
    text=True,
)


def ranks():
    """The launcher's children, by rank."""
    found = {}
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/stat") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            if parent != run.pid:
                continue
            with open(f"/proc/{entry}/environ") as file:
                environ = dict(e.split("=", 1) for e in file.read().split("\0") if "=" in e)
            found[int(environ["SHARDONNX_RANK"])] = int(entry)
        except (OSError, ValueError, KeyError, IndexError):
            continue
    return found


deadline = time.monotonic() + 60
while not (os.path.exists(log) and os.path.getsize(log) > 0):
    if run.poll() is not None or time.monotonic() > deadline:
        run.kill()
        sys.exit("kill_rank.py: no step was logged: " + run.stderr.read())
    time.sleep(0.05)

os.kill(ranks()[1], signal.SIGKILL)
begin = time.monotonic()
errors = run.communicate(timeout=60)[1]
took = time.monotonic() - begin
print(errors, end="")
assert took < 30, took
assert run.returncode == 1, run.returncode
assert errors.count(": error: ") == 1
for line in open(log):
    json.loads(line)
