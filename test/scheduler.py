# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs commands side by side on the cores there are, the longest first.

A job says how many cores it keeps busy; together, the jobs that run keep no
more busy than there are, and a little more for those that mostly sleep.
"""

import os
import queue
import signal
import subprocess
import threading
import time

# How much more may run beside jobs that use all cores: such as mostly sleep.
SLACK = 0.75


def cores():
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


class Job:
    """A command whose output goes to a file."""

    def __init__(self, name, words, log, cores=1, seconds=1, environment=None,
                 timeout=3600):
        self.name = name
        self.words = words
        self.log = log
        self.cores = cores  # that it keeps busy; a fraction: it mostly sleeps
        self.seconds = seconds  # about; the longest job starts first
        self.environment = environment or {}
        self.timeout = timeout
        self.status = None  # after its end; None: it ran out of time
        self.took = self.busy = 0.0  # seconds: of time, of processors
        self.process = None

    def output(self):
        with open(self.log, errors="replace") as file:
            return file.read()

    def start(self, ends):
        """Starts the command; the job is put into `ends` when it has ended."""
        with open(self.log, "w") as file:
            self.process = subprocess.Popen(
                self.words, stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, start_new_session=True,
                env=os.environ | self.environment)
        threading.Thread(target=self._wait, args=(ends,), daemon=True).start()

    def _wait(self, ends):
        begin = time.monotonic()
        timer = threading.Timer(self.timeout, self.kill)
        timer.start()
        _, status, usage = os.wait4(self.process.pid, 0)
        late = not timer.is_alive()
        timer.cancel()
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.status = None if late else self.process.returncode
        self.took = time.monotonic() - begin
        self.busy = usage.ru_utime + usage.ru_stime
        ends.put(self)

    def kill(self):
        """Ends the command and all that it has started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def run(jobs, available, ended):
    """Runs all jobs; `ended` is called with each that has ended. Returns the
    most cores that were asked for at any moment."""
    waiting = sorted(jobs, key=lambda job: -job.seconds)
    running, ends, most = set(), queue.Queue(), 0
    try:
        while waiting or running:
            for job in list(waiting):
                busy = sum(other.cores for other in running)
                room = available + (SLACK if job.cores < 1 else 0)
                if running and busy + job.cores > room:
                    continue
                waiting.remove(job)
                running.add(job)
                most = max(most, busy + job.cores)
                job.start(ends)
            job = ends.get()
            running.remove(job)
            ended(job)
    finally:
        for job in running:
            job.kill()
    return most
