# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# tuned.py RUN AGAIN ADAPTER: held-out text is predicted better than at first, and
# the adapter alone brings that back.

import json
import os
import sys

run, again = ([json.loads(line) for line in open(path)] for path in sys.argv[1:3])
evals = [row["eval_loss"] for row in run if "eval_loss" in row]
assert min(evals) < evals[0] and evals[0] < run[0]["loss"] + 1, evals
best = min(evals)
assert abs(again[-1]["eval_loss"] / best - 1) < 1e-6, (again[-1]["eval_loss"], best)
assert sorted(os.listdir(sys.argv[3])) == ["adapter_config.json", "adapter_model.safetensors"]
