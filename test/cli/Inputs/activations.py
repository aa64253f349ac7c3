# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compares what `inspect --json` has of two programs' activations: the second's
# are at most so many times the first's.
#
#   activations.py BAR INSPECTED INSPECTED

import json
import sys


def activations(path):
    items = json.load(open(path))["memory"]["items"]
    return sum(i["bytes"] for i in items if "activations" in i["name"])


bar = float(sys.argv[1])
one, other = map(activations, sys.argv[2:])
assert 0 < other <= bar * one, (one, other)
