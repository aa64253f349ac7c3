# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How benchmarks/measure.py runs jobs, with jobs that do nothing."""

import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))
sys.dont_write_bytecode = True

import measure


class Watch:
    interval = 0.01

    def sample(self, jobs, log):
        pass


def run(*programs, timeout=60):
    with tempfile.TemporaryDirectory() as folder:
        return measure.run([([sys.executable, "-c", program], {})
                            for program in programs],
                           os.path.join(folder, "log.jsonl"), timeout, Watch())


class RunTest(unittest.TestCase):
    def test_names_the_rank_that_failed(self):
        """Not the first one, which still waits for it."""
        with self.assertRaisesRegex(RuntimeError, "^exit status 3: lost\n"):
            run("import time; time.sleep(60)",
                "import sys; print('lost'); sys.exit(3)")

    def test_names_a_signal(self):
        with self.assertRaisesRegex(RuntimeError, "^ended by signal 9: no"):
            run("import time; time.sleep(60)",
                "import os; os.kill(os.getpid(), 9)")

    def test_ends_what_takes_too_long(self):
        with self.assertRaisesRegex(measure.OutOfTime, "not done after 0 s"):
            run("import time; time.sleep(60)", timeout=0.1)


if __name__ == "__main__":
    unittest.main()
