# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compares the losses and gradient norms of runs, from their logs, with those of
# the first.
#
#   same_losses.py BAR LOG LOG…

import json
import sys

bar = float(sys.argv[1])
runs = [[json.loads(line) for line in open(path)] for path in sys.argv[2:]]
for path, run in zip(sys.argv[3:], runs[1:]):
    assert len(run) == len(runs[0]), (path, len(run))
    for ours, one in zip(run, runs[0]):
        for key in ("loss", "grad_norm"):
            difference = abs(ours[key] / one[key] - 1)
            assert difference < bar, (path, ours["step"], key, difference)
        assert ours["tokens"] == one["tokens"], (path, ours, one)
