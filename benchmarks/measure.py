# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a job of one or more ranks and measures it from outside.

Both sides are measured by the same eyes: step times from a JSON log, memory
from /proc while steps are running.
"""

import json
import os
import statistics
import subprocess
import time

# Steps that fill caches, pools and compiled graphs.
WARM_UP = 3
# A step is quiet if it is no slower than this times the fastest.
QUIET = 1.25
SAMPLE_SECONDS = 0.5


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
    try:
        with open(log) as file:
            return [json.loads(line) for line in file
                    if line.endswith("\n") and line.strip()]
    except OSError:
        return []


def run(commands, log, ranks, timeout):
    """Starts the commands (word list, environment), waits for all of them.

    Returns the steps of the log and the largest rank's memory. Fails with the
    output of the first command that fails.
    """
    if os.path.exists(log):
        os.remove(log)
    deadline = time.monotonic() + timeout
    outputs = [open(f"{log}.out{i}", "w+") for i in range(len(commands))]
    jobs = [subprocess.Popen(words, env={**os.environ, **env}, stdout=output,
                             stderr=subprocess.STDOUT)
            for (words, env), output in zip(commands, outputs)]
    peak = [0, 0]
    try:
        while any(job.poll() is None for job in jobs):
            time.sleep(SAMPLE_SECONDS)
            if len(steps_in(log)) >= 2:
                sample(jobs, ranks, peak)
            if (any(job.poll() not in (None, 0) for job in jobs)
                    or time.monotonic() > deadline):
                break
        failed = [i for i, job in enumerate(jobs) if job.poll() != 0]
        if failed:
            outputs[failed[0]].seek(0)
            raise RuntimeError(f"{' '.join(commands[failed[0]][0])}\n"
                               + outputs[failed[0]].read()[-2000:])
    finally:
        for job in jobs:
            if job.poll() is None:
                job.kill()
            job.wait()
        for output in outputs:
            output.close()
    return steps_in(log), tuple(peak)


def sample(jobs, ranks, peak):
    """Raises `peak` to what the largest rank holds now."""
    found = [memory(pid) for job in jobs for pid in children(job.pid)]
    found = sorted((m for m in found if m), reverse=True)[:ranks]
    for resident, proportional in found:
        peak[0] = max(peak[0], resident)
        peak[1] = max(peak[1], proportional)


def quiet_median(milliseconds):
    """Median of the quiet steps, and the share of steps that were quiet."""
    bound = QUIET * min(milliseconds)
    quiet = [t for t in milliseconds if t <= bound]
    return statistics.median(quiet), len(quiet) / len(milliseconds)


def run_and_time(words):
    """Runs a command: seconds, and peak resident bytes of it or a child."""
    start = time.monotonic()
    job = subprocess.Popen(words)
    _, status, usage = os.wait4(job.pid, 0)
    job.returncode = os.waitstatus_to_exitcode(status)
    if job.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: exit status "
                           f"{job.returncode}")
    return time.monotonic() - start, usage.ru_maxrss * 1024
