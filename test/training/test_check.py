#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The comparison with PyTorch must be able to fail: each way is tried here.
What --table of run_strategies.py writes, too."""

import json
import os
import unittest

import cases
import check
import run_strategies


def recorded(name):
    with open(os.path.join(cases.HERE, "recorded", name + ".json")) as file:
        return json.load(file)


def faithful_log(run):
    """A log as an executable writes it that does exactly what PyTorch did."""
    return [dict(step=i + 1, loss=run["loss"][i],
                 grad_norm=run["grad_norm"][i], lr=run["lr"][i])
            for i in range(len(run["loss"]))]


class CheckTest(unittest.TestCase):
    def setUp(self):
        self.run_ = recorded("gpt2-cosine")
        self.log = faithful_log(self.run_)

    def faults(self):
        return check.compare(self.log, self.run_, 1e-4, 1e-3)[2]

    def test_faithful(self):
        self.assertEqual(self.faults(), [])

    def test_within_bounds(self):
        self.log[3]["loss"] *= 1 + 9e-5
        self.log[4]["grad_norm"] *= 1 - 9e-4
        self.assertEqual(self.faults(), [])

    def test_loss_off(self):
        self.log[19]["loss"] *= 1 + 2e-4
        self.assertEqual(len(self.faults()), 1)

    def test_norm_off(self):
        self.log[0]["grad_norm"] *= 1 - 2e-3
        self.assertEqual(len(self.faults()), 1)

    def test_rate_off(self):
        self.log[7]["lr"] *= 1.001
        self.assertEqual(len(self.faults()), 1)

    def test_missing_step(self):
        del self.log[19]
        self.assertEqual(len(self.faults()), 1)

    def test_empty_log(self):
        self.log = []
        self.assertTrue(self.faults())

    def test_no_number(self):
        for value in (float("nan"), float("inf"), None, "5.6"):
            self.log[2]["loss"] = value
            self.assertTrue(self.faults(), value)


class CasesTest(unittest.TestCase):
    def test_every_case_is_recorded(self):
        for case in cases.CASES:
            run = recorded(case.get("like", case["name"]))
            for key in ("loss", "grad_norm", "lr"):
                self.assertEqual(len(run[key]), cases.STEPS, case["name"])
            for path in (cases.model_path(case["model"]),
                         cases.data_path(case["data"])):
                self.assertTrue(os.path.exists(path), path)

    def test_settings_show(self):
        """A program that ignores an option must not pass its case."""
        for name in ("gpt2-short-data", "gpt2-sgd",
                     "gpt2-no-clip", "gpt2-cosine", "gpt2-linear", "gpt2-wsd",
                     "gpt2-no-decay", "gpt2-freeze", "gpt2-labels"):
            log = faithful_log(recorded("gpt2-18"))
            self.assertTrue(check.compare(log, recorded(name), 1e-4, 1e-3)[2],
                            name)


class PageTest(unittest.TestCase):
    def test_rows(self):
        """A run fills its cell, what was not run is empty, and one that
        failed says so."""
        mib = 1 << 20
        runs = [("m", "no_shard", "none", "sharded", 2, "f32", 3e-9, True),
                ("m", "no_shard", "none", "sharded", 3, "f32", None, False)]
        meshes = [("tensor:2", "no_shard", "block", "sharded", "f32", 2e-9,
                   True),
                  ("context:2", "no_shard", "none", "sharded", "f32", None,
                   False)]
        memory = [("no_shard", 1, "f32", 8 * mib, 9 * mib, True),
                  ("LoRA", 4, "bf16", 3 * mib, 4 * mib, True),
                  ("LoRA", 2, "bf16", None, None, False)]
        page = list(run_strategies.page(runs, meshes, memory, "m.onnx"))
        self.assertIn("| m | no_shard | none | sharded | f32 |  | 3.0e-09 | "
                      "failed |  |", page)
        self.assertIn("| no_shard | block | sharded | f32 | 2.0e-09 |  |", page)
        self.assertIn("| no_shard | none | sharded | f32 |  | failed |", page)
        self.assertIn("| no_shard | f32 | 8.0 / 9.0 |  |  |", page)
        self.assertIn("| LoRA | bf16 |  | failed | 3.0 / 4.0 |", page)
        self.assertTrue(any("4 runs, 2 failed" in line for line in page))


if __name__ == "__main__":
    unittest.main()
