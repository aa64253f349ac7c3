# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a job of one or more ranks and measures it from outside.

Both sides are measured by the same eyes: step times from a JSON log, memory
from what the system says while steps are running.
"""

import array
import ctypes
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import time

# Steps that fill caches, pools and compiled graphs.
WARM_UP = 3
# A step is quiet if it is no slower than this times the fastest.
QUIET = 1.25
SAMPLE_SECONDS = 0.5

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def children(pid):
    """A process and all its descendants."""
    found = [pid]
    for parent in found:
        try:
            with open(f"/proc/{parent}/task/{parent}/children") as file:
                found += [int(word) for word in file.read().split()]
        except OSError:
            continue
    return found


def memory(pid):
    """Resident and proportional set size in bytes, or None if it is gone."""
    sizes = {}
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            for line in file:
                words = line.split()
                if words[0] in ("Rss:", "Pss:"):
                    sizes[words[0]] = int(words[1]) * 1024
    except OSError:
        return None
    return (sizes["Rss:"], sizes["Pss:"]) if len(sizes) == 2 else None


def steps_in(log):
    """The whole lines of a log; one that is no object is an error."""
    try:
        with open(log) as file:
            lines = [line for line in file
                     if line.endswith("\n") and line.strip()]
    except OSError:
        return []
    return [step_of(log, number + 1, line) for number, line in
            enumerate(lines)]


def step_of(log, number, line):
    try:
        step = json.loads(line)
    except ValueError:
        step = None
    if not isinstance(step, dict):
        raise RuntimeError(f"{os.path.basename(log)}, line {number}: no JSON "
                           f"object: {line.strip()[:80]!r}")
    return step


class OutOfTime(RuntimeError):
    """A command was ended because it took too long."""


class ProcessMemory:
    """Watches what the largest rank holds, from the second step on."""

    interval = SAMPLE_SECONDS

    def __init__(self, ranks):
        self.ranks = ranks
        self.peak = (0, 0)  # resident and proportional set size

    def sample(self, jobs, log):
        if len(steps_in(log)) < 2:
            return
        found = [memory(pid) for job in jobs for pid in children(job.pid)]
        found = sorted((m for m in found if m), reverse=True)[:self.ranks]
        for sizes in found:
            self.peak = tuple(map(max, self.peak, sizes))


def end_with_parent():
    """Called in a child: the kernel ends it when this process is killed."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run(commands, log, timeout, watch):
    """Starts the commands (word list, environment), waits for all of them.

    `watch.sample` is called while they run. Returns the steps of the log.
    Fails with the output of the first command that fails. Whatever happens,
    no process that was started stays behind.
    """
    if os.path.exists(log):
        os.remove(log)
    deadline = time.monotonic() + timeout
    outputs = [open(f"{log}.out{i}", "w+", errors="replace")
               for i in range(len(commands))]
    jobs = []
    try:
        for (words, env), output in zip(commands, outputs):
            jobs.append(subprocess.Popen(
                words, env={**os.environ, **env}, stdout=output,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                start_new_session=True, preexec_fn=end_with_parent))
        wait(jobs, log, deadline, timeout, watch)
        # A rank that waits for the one that failed is still running.
        failed = [i for i, job in enumerate(jobs)
                  if job.poll() not in (None, 0)]
        if failed:
            raise RuntimeError(failure(commands[failed[0]][0],
                                       jobs[failed[0]].returncode,
                                       outputs[failed[0]]))
    finally:
        for job in jobs:
            end(job)
        for output in outputs:
            output.close()
    return steps_in(log)


def wait(jobs, log, deadline, timeout, watch):
    """Until all have ended well, or one has not."""
    while any(job.poll() is None for job in jobs):
        if any(job.poll() not in (None, 0) for job in jobs):
            return
        if time.monotonic() > deadline:
            raise OutOfTime(f"{os.path.basename(jobs[0].args[0])}: not done "
                            f"after {timeout:.0f} s, with "
                            f"{len(steps_in(log))} steps in its log")
        time.sleep(watch.interval)
        watch.sample(jobs, log)


def failure(words, status, output):
    """How a command ended, its last line, and then all about it."""
    output.seek(0)
    said = output.read()[-4000:].strip()
    how = (f"ended by signal {-status}" if status < 0
           else f"exit status {status}")
    last = said.split("\n")[-1].strip() or "no output"
    return f"{how}: {last}\n{' '.join(words)}\n{said}"


def end(job):
    """Ends a job with everything that it started."""
    try:
        os.killpg(job.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    job.wait()


def quiet_median(milliseconds):
    """Median of the quiet steps, and the share of steps that were quiet."""
    bound = QUIET * min(milliseconds)
    quiet = [t for t in milliseconds if t <= bound]
    return statistics.median(quiet), len(quiet) / len(milliseconds)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def write_tokens(path, vocabulary, count):
    """Tokens that are not uniform, as no text is; the same every time."""
    draw = random.Random(0)
    tokens = array.array("H", (int(vocabulary * draw.random() ** 3)
                               for _ in range(count)))
    if sys.byteorder == "big":
        tokens.byteswap()
    with open(path, "wb") as file:
        tokens.tofile(file)


def run_and_time(words, env):
    """Runs a command: seconds, and peak resident bytes of it or a child."""
    start = time.monotonic()
    job = subprocess.Popen(words, env={**os.environ, **env})
    _, status, usage = os.wait4(job.pid, 0)
    job.returncode = os.waitstatus_to_exitcode(status)
    if job.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: exit status "
                           f"{job.returncode}")
    return time.monotonic() - start, usage.ru_maxrss * 1024
