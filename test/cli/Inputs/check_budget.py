# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Reads `inspect --json` of a program with a memory budget: the planned memory of
# a rank is within it, and no more communication is exposed than in the program
# without.
#
#   check_budget.py PLAIN.json BUDGET.json BYTES

import json
import sys

plain, tried = (json.load(open(path)) for path in sys.argv[1:3])
budget = int(sys.argv[3])
assert tried["memory"]["peak_bytes"] <= budget, tried["memory"]["peak_bytes"]
waits = [report["communication"]["exposed_ms"] for report in (plain, tried)]
assert waits[1] <= waits[0], waits
