# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A bundle's own peer.py in every way that a CPU can run it.

    peers.py BUNDLE PYTHON

The bundle is copied into an empty folder and run with an empty environment,
so nothing of the project is found that it does not carry. All ways train the
same model from the same weights, so their losses must agree.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

STEPS = 6
MODEL = ["gpt2-small", "--shape=--layers 2", "--seq", "32", "--batch", "2"]
WAYS = [[*mode.split(), *more]
        for mode in ("eager", "fsdp2", "compile", "fsdp2-compile")
        for more in ([], ["--precision", "bf16"])]
WAYS += [["eager", "--recompute", "block"], ["fsdp2", "--recompute", "block"],
         ["eager", "--profile", "trace.json"]]
RTOL = {"f32": 1e-4, "bf16": 2e-2}


def command(root, way, log):
    return [*MODEL, "--mode", *way, "--draw", "0", "--drawn-as",
            "transformer.wte.weight=lm_head.weight", "--steps", str(STEPS),
            "--data", os.path.join(root, "data", "random.bin"),
            "--lr", "1e-3", "--log", log]


def losses(path):
    with open(path) as file:
        return [json.loads(line)["loss"] for line in file]


def main():
    bundle, python = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        root = os.path.join(folder, "bundle")
        shutil.copytree(bundle, root)
        words = []
        for number, way in enumerate(WAYS):
            words += (["+"] if words else []) + command(root, way,
                                                        f"{number}.jsonl")
        done = subprocess.run(
            [python, os.path.join(root, "benchmarks", "peer.py"), *words],
            cwd=folder, capture_output=True, text=True, timeout=900,
            env={"PATH": os.environ["PATH"], "HOME": folder, "RANK": "0",
                 "WORLD_SIZE": "1", "LOCAL_RANK": "0",
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0",
                 "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1",
                 "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "cache")})
        if done.returncode != 0:
            sys.exit(f"peers.py: peer.py failed:\n{done.stderr[-4000:]}")
        expected = losses(os.path.join(folder, "0.jsonl"))
        assert len(expected) == STEPS and expected[-1] < expected[0], expected
        for number, way in enumerate(WAYS):
            found = losses(os.path.join(folder, f"{number}.jsonl"))
            worst = max(abs(a - b) / b for a, b in zip(found, expected))
            bound = RTOL["bf16" if "bf16" in way else "f32"]
            assert len(found) == STEPS and worst <= bound, (way, found)
            print(f"{' '.join(way)}: {worst:.1e}")
        with open(os.path.join(folder, "trace.json")) as file:
            assert json.load(file)["traceEvents"]


if __name__ == "__main__":
    main()
