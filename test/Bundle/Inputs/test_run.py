# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A bundle's `run` must survive whatever its programs do.

Every program here is `fake`, which hangs, crashes, prints garbage or trains
wrongly on request.
"""

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
BROKEN = ("hang", "crash", "error", "short", "garbage", "array", "nan",
          "wrong")


def check(name, program):
    """A tiny model, all of whose programs are the same one."""
    names = ("full_shard", "f32", "bf16", "strict", "shard_grad_op",
             "no_shard")
    return dict(name=name, preset="gpt2-small", shape="", graph="graph",
                weights="weights", recorded={"f32": "recorded/run.json"},
                programs={n: f"programs/{program}" for n in names})


def packed(name, program):
    """A tiny model of packed documents."""
    return dict(name=name, graph="graph",
                recorded={"bf16": "recorded/run.json"},
                programs={n: f"programs/{program}" for n in ("all", "some")})


def work(name, program, peers=("eager", "fsdp2-compile"), start=False):
    return dict(name=name, title=f"Work {name}", preset="gpt2-small",
                shape="", batch=2, seq=8, precision="f32", recompute="none",
                steps=10, peers=list(peers), limit=60, start=start,
                program=f"programs/{program}", parameters=1000, flops=10 ** 9,
                planned_bytes=1 << 24, drawn_as={"a": "b"})


class RunTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="bundle-")
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("benchmarks", "benchmarks/cuda", "test/training",
                     "models"):
            target = os.path.join(self.folder, name)
            os.makedirs(target, exist_ok=True)
            for file in os.listdir(os.path.join(ROOT, name)):
                if file.endswith(".py"):
                    shutil.copy(os.path.join(ROOT, name, file), target)
        shutil.copy(os.path.join(ROOT, "benchmarks", "cuda", "run"),
                    self.folder)
        os.mkdir(os.path.join(self.folder, "programs"))
        for name in BROKEN + ("good", "restless", "python", "memory",
                              "compute-sanitizer", "asleep", "refused"):
            shutil.copy(os.path.join(HERE, "fake"),
                        os.path.join(self.folder, "programs", name))
        os.mkdir(os.path.join(self.folder, "recorded"))
        shutil.copy(os.path.join(ROOT, "test", "training", "recorded",
                                 "gpt2-18.json"),
                    os.path.join(self.folder, "recorded", "run.json"))
        self.out = os.path.join(self.folder, "results")

    def words(self, checks=(), works=(), options=(), target="cpu",
              commit="none", documents=()):
        with open(os.path.join(self.folder, "bundle.json"), "w") as file:
            json.dump(dict(target=target, arch="native", commit=commit,
                           check_data="data", speed_data="data",
                           checks=list(checks), workloads=list(works),
                           documents=list(documents)), file)
        return [sys.executable, os.path.join(self.folder, "run"), "--python",
                os.path.join(self.folder, "programs", "python"), *options]

    def run_it(self, checks=(), works=(), options=(), env=None, **more):
        """Exit status, row -> last status and reason, what was printed."""
        done = subprocess.run(self.words(checks, works, options, **more),
                              capture_output=True, text=True, timeout=120,
                              env={**os.environ, **(env or {})})
        return done.returncode, self.ends(), done.stdout + done.stderr

    def ends(self):
        found = {}
        with open(os.path.join(self.out, "results.jsonl")) as file:
            for line in file:
                result = json.loads(line)
                if result["kind"] == "end":
                    found[result["row"]] = (result["status"], result["why"])
        return found

    def left_over(self):
        """Processes that still run a program of this bundle."""
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(path) as file:
                    found.append(file.read())
            except OSError:
                continue  # it has ended
        return [line for line in found
                if os.path.join(self.folder, "programs") in line]

    def test_all_good(self):
        status, ends, said = self.run_it(
            [check("a", "good")], [work("w", "good", start=True)])
        self.assertEqual(status, 0, said)
        for row in ("machine", "f32-a", "strict-a", "ranks-2-a", "ranks-4-a",
                    "w", "start-w"):
            # The fake peer trains well in every mode but `compile`.
            self.assertEqual(ends[row], ("ok", None), said)
        self.assertEqual(ends["memcheck-a"][0], "skipped")
        self.assertIn("| shardonnx : eager | 1.00 |", said)
        self.assertIn("| w | – | 1.00 (eager) | 1.00 (fsdp2-compile) | 1.00 | "
                      "0.0e+00 | idle 50%, elementwise 25%, ", said)
        self.assertIn("| f32-a | PyTorch on this machine | 0.0e+00 |", said)
        with open(os.path.join(self.out, "tables.md")) as file:
            self.assertIn(file.read().strip(), said)

    def test_broken_checks(self):
        """Each fails with a reason of its own, and all others run."""
        reasons = dict(hang="not done after 6 s, with 0 steps",
                       crash="ended by signal 6",
                       error="the device is on fire",
                       short="3 steps in the log, not 20",
                       garbage="line 3: no JSON object",
                       array="line 3: no JSON object", nan="losses part by",
                       wrong="losses part by")
        status, ends, said = self.run_it(
            [check(name, name) for name in BROKEN] + [check("a", "good")],
            options=["--rows", "f32", "--limit", "6"])
        self.assertEqual(status, 1)
        self.assertEqual(ends["f32-a"], ("ok", None), said)
        for name in BROKEN:
            self.assertEqual(ends["f32-" + name][0], "failed", name)
            self.assertIn(reasons[name], ends["f32-" + name][1])
        self.assertEqual(self.left_over(), [])

    def test_documents(self):
        """By cuDNN, by our kernels and by both; told where cuDNN did none."""
        status, ends, said = self.run_it(
            [check("a", "good")], options=["--rows", "documents"],
            documents=[packed(name, name) for name in
                       ("good", "wrong", "asleep", "refused")])
        self.assertEqual(status, 1, said)
        self.assertEqual(ends["documents-good"], ("ok", None), said)
        for against in ("the recorded PyTorch run (cuDNN)",
                        "the recorded PyTorch run (our own kernels)",
                        "the recorded PyTorch run (both)",
                        "cuDNN against our own kernels"):
            self.assertIn(f"| documents-good | {against} | 0.0e+00 |", said)
        self.assertIn("losses part by", ends["documents-wrong"][1])
        self.assertEqual(ends["documents-asleep"][0], "partly", said)
        self.assertIn("does not start", ends["documents-asleep"][1])
        self.assertEqual(ends["documents-refused"][0], "failed", said)
        self.assertIn("too packed", ends["documents-refused"][1])

    def test_restless(self):
        """Runs that differ in one bit are not the same."""
        _, ends, _ = self.run_it([check("r", "restless")],
                                 options=["--rows", "strict"])
        self.assertEqual(ends["strict-r"][0], "failed")
        self.assertIn("two runs differ from step 6 on", ends["strict-r"][1])

    def test_broken_peers(self):
        """Ours is measured whatever becomes of PyTorch."""
        status, ends, said = self.run_it(works=[
            work("m", "good", ["compile", "eager"]),
            work("o", "memory"), work("n", "nan"), work("last", "good")],
            options=["--limit", "20"])
        self.assertEqual(status, 1)
        self.assertEqual(ends["m"], ("ok", None), said)
        self.assertIn("| compile | out of memory |", said)
        self.assertIn("out of memory", ends["o"][1])
        self.assertIn("step 5: loss is nan", ends["n"][1])
        self.assertEqual(ends["last"], ("ok", None))

    def test_losses_that_part(self):
        """A contender that trains something else proves nothing."""
        _, ends, said = self.run_it(
            works=[work("w", "good", ["fsdp2", "eager"])],
            options=["--rows", "w"], env={"FAKE_APART": "1"})
        self.assertEqual(ends["w"][0], "failed")
        self.assertIn("fsdp2: trains something else than shardonnx: at step 5 "
                      "the losses are 1", ends["w"][1])
        self.assertIn("| shardonnx : eager | 1.00 |", said)
        self.assertNotIn("| shardonnx : fsdp2 |", said)

    def turns(self, row):
        with open(os.path.join(self.out, "results.jsonl")) as file:
            results = [json.loads(line) for line in file]
        return [r["who"] for r in results
                if r["row"] == row and r["kind"] == "turn"]

    def test_sessions(self):
        """Each runs its rows, and what earlier ones left; nothing twice."""
        peers = ["eager", "compile", "fsdp2", "fsdp2-compile"]
        bundle = ([check("a", "good")], [work("small", "good", peers),
                                         work("large", "good", peers)])
        status, ends, said = self.run_it(*bundle, ["--session", "2"])
        self.assertEqual(status, 0, said)
        self.assertEqual(list(ends), ["large", "machine", "f32-a", "small",
                                      "strict-a", "ranks-2-a"])
        # First those that tell most for their time.
        self.assertEqual(self.turns("large"), [
            "shardonnx", "eager", "shardonnx", "fsdp2-compile", "shardonnx",
            "shardonnx", "fsdp2", "shardonnx", "compile", "shardonnx"])
        for session in ("2", "1"):
            _, _, said = self.run_it(*bundle, ["--session", session])
            self.assertNotIn(" s  ", said)
        self.assertEqual(len(self.turns("large")), 10)
        status, ends, said = self.run_it(*bundle, ["--session", "3"])
        self.assertEqual(status, 0, said)
        self.assertEqual(ends["ranks-4-a"], ("ok", None))
        self.assertEqual(ends["memcheck-a"][0], "skipped")
        self.assertIn("### profile-large", said)

    def test_eight_bits(self):
        """Rows of session 3, whose peers want torchao; the fake has none."""
        eight = dict(work("eight", "good", ["compile"]), precision="fp8")
        bundle = [check("a", "good")], [work("small", "good"), eight]
        status, ends, said = self.run_it(*bundle, ["--session", "2"])
        self.assertNotIn("eight", ends)
        status, ends, said = self.run_it(*bundle, ["--session", "3"])
        self.assertEqual((status, ends["eight"]), (0, ("ok", None)), said)
        self.assertEqual(self.turns("eight"), ["shardonnx"])
        self.assertIn("products of 8 bits are torchao's: there is none", said)

    def test_taking_up(self):
        """A row that was cut off goes on where it stood, elsewhere."""
        bundle = ([check("a", "good")],
                  [work("small", "good", ["eager", "fsdp2"])])
        self.run_it(*bundle, ["--session", "1", "--peers", "eager"])
        path = os.path.join(self.out, "results.jsonl")
        with open(path) as file:
            lines = [line for line in file if json.loads(line)["row"] in (
                "machine", "small") and '"kind": "end"' not in line]
        with open(path, "w") as file:
            file.writelines(lines)
        before = self.turns("small")
        elsewhere = os.path.join(self.folder, "elsewhere")
        status, _, said = self.run_it(*bundle, ["--session", "1", "--out",
                                                elsewhere])
        self.assertEqual(status, 0, said)
        self.assertIn("going on from " + path, said)
        with open(path) as file:
            self.assertEqual(list(file), lines)
        self.out = elsewhere
        self.assertEqual(before + ["shardonnx", "fsdp2", "shardonnx"],
                         self.turns("small"))
        self.assertEqual(self.ends()["f32-a"], ("ok", None))
        _, _, said = self.run_it(*bundle, ["--session", "1", "--out",
                                           elsewhere], commit="other")
        self.assertIn("the results so far are of commit none", said)
        self.assertTrue(os.path.exists(os.path.join(elsewhere,
                                                    "results-none.jsonl")))

    def test_no_torch(self):
        status, ends, said = self.run_it(
            [check("a", "good")], [work("w", "good")],
            ["--python", "/nonexistent/python"])
        self.assertEqual(status, 0, said)
        self.assertEqual(ends["f32-a"][0], "partly")
        self.assertEqual(ends["w"][0], "ok")
        self.assertIn("without PyTorch: no PyTorch with transformers", said)

    def test_budget(self):
        """No row begins without time, and none outlasts it."""
        began = time.monotonic()
        _, ends, _ = self.run_it([check("h", "hang"), check("a", "good")],
                                 options=["--budget", "8",
                                          "--rows", "f32-h,f32-a"])
        self.assertLess(time.monotonic() - began, 20)
        self.assertEqual(ends["f32-h"][0], "cut off")
        self.assertEqual(ends["f32-a"], ("cut off", "the budget is used up"))

    def test_stopped(self):
        """SIGTERM ends what runs, and the tables still come."""
        job = subprocess.Popen(
            self.words([check("a", "good"), check("h", "hang")],
                       options=["--rows", "f32-a,f32-h"]),
            stdout=subprocess.PIPE, text=True)
        results = os.path.join(self.out, "results.jsonl")
        while not (os.path.exists(results) and "f32-a" in self.ends()):
            time.sleep(0.05)
        time.sleep(1)
        job.send_signal(signal.SIGTERM)
        said = job.communicate(timeout=30)[0]
        self.assertEqual(job.returncode, 1)
        self.assertEqual(self.ends()["f32-h"], ("stopped", "by SIGTERM"))
        self.assertIn("| f32-h | stopped |", said)
        self.assertEqual(self.left_over(), [])

    def test_sanitizer(self):
        """A row is good only if the tool says that it found nothing."""
        path = os.path.join(self.folder, "programs")
        for program, found, wanted in (
                ("good", "ERROR SUMMARY: 0 errors", ("ok", None)),
                ("good", "ERROR SUMMARY: 3 errors", ("failed", "3 errors")),
                ("good", "nothing", ("failed", "no summary")),
                ("error", "ERROR SUMMARY: 0 errors",
                 ("failed", "the device is on fire"))):
            subprocess.run(
                self.words([check("s", program)], target="cuda",
                           options=["--rows", "memcheck"]),
                env={**os.environ, "FAKE_FOUND": found,
                     "PATH": path + ":" + os.environ["PATH"]},
                capture_output=True, timeout=60)
            status, why = self.ends()["memcheck-s"]
            self.assertEqual(status, wanted[0], why)
            self.assertIn(wanted[1] or "", why or "")

    def test_killed(self):
        """What `run` started ends with it, whatever ends it."""
        job = subprocess.Popen(self.words([check("h", "hang")],
                                          options=["--rows", "f32-h"]),
                               stdout=subprocess.DEVNULL)
        while not self.left_over():
            time.sleep(0.05)
        job.kill()
        job.wait()
        patience = time.monotonic() + 10
        while self.left_over() and time.monotonic() < patience:
            time.sleep(0.05)
        self.assertEqual(self.left_over(), [])

    def test_half_a_line(self):
        """Results that a crash cut off neither stop nor mix with new ones."""
        self.run_it([check("a", "good")], options=["--rows", "f32-a"])
        path = os.path.join(self.out, "results.jsonl")
        with open(path) as file:
            whole = file.read()
        with open(path, "w") as file:
            file.write(whole + '{"row": "lost", "kind": "begin"}\n'
                       + whole[:40])
        done = subprocess.run(self.words([check("a", "good")], options=[
            "--rows", "strict-a"]), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in ("| f32-a | ok |", "| strict-a | ok |",
                     "| lost | killed |"):
            self.assertIn(line, done.stdout)

    def test_command_line(self):
        done = subprocess.run(self.words(options=["--rows", "f33"]),
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no 'f33'", done.stderr)
        done = subprocess.run(self.words(options=["--peers", "jax"]),
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
