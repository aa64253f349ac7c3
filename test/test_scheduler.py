#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The scheduler of tests must run all of them, and tell how they ended."""

import os
import tempfile
import unittest

import scheduler


class SchedulerTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def job(self, name, script, **more):
        return scheduler.Job(name, ["sh", "-c", script],
                             os.path.join(self.folder.name, name), **more)

    def run_all(self, jobs, available):
        ended = []
        most = scheduler.run(jobs, available, ended.append)
        self.assertEqual(len(ended), len(jobs))
        return [job.name for job in ended], most

    def test_the_longest_first(self):
        jobs = [self.job(f"j{n}", "true", seconds=n) for n in (2, 9, 4)]
        self.assertEqual(self.run_all(jobs, 1), (["j9", "j4", "j2"], 1))

    def test_no_more_than_the_cores(self):
        jobs = [self.job(f"j{n}", "sleep 0.05", cores=cores)
                for n, cores in enumerate((1, 1, 2, 1, 8, 1))]
        self.assertEqual(self.run_all(jobs[:4], 2)[1], 2)
        self.assertEqual(self.run_all(jobs, 4)[1], 8)  # alone

    def test_who_sleeps_runs_beside(self):
        jobs = [self.job(f"j{n}", "sleep 0.2", seconds=9) for n in range(2)]
        jobs += [self.job(f"s{n}", "sleep 0.1", cores=0.25) for n in range(9)]
        self.assertEqual(self.run_all(jobs, 2)[1], 2.75)

    def test_how_they_end(self):
        jobs = [self.job("good", "echo said; echo more >&2"),
                self.job("bad", "exit 3"),
                self.job("late", "sleep 60 & wait", timeout=0.1),
                self.job("told", "test $WORD = yes",
                         environment={"WORD": "yes"})]
        self.run_all(jobs, 3)
        self.assertEqual([job.status for job in jobs], [0, 3, None, 0])
        self.assertEqual(jobs[0].output(), "said\nmore\n")


if __name__ == "__main__":
    unittest.main()
