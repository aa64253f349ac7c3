# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compares `inspect --json` of a program without and with a memory budget that
# everything fits in: small blocks are merged, every unit is kept and gathered
# in the update alone, and the planned memory is within the budget.
#
#   check_budget.py PLAIN.json BUDGET.json BYTES

import json
import sys

plain, ample = (json.load(open(path)) for path in sys.argv[1:3])
budget = int(sys.argv[3])


def starts(report, function):
    found = [f for f in report["functions"] if f["name"] == function]
    return [c["unit"] for c in found[0]["collectives"] if c["op"] == "gather_start"]


assert ample["memory"]["peak_bytes"] <= budget
# Two blocks and the root; the blocks are merged.
assert len(plain["units"]) == 3, plain["units"]
names = [unit["name"] for unit in ample["units"]]
assert sorted(names) == ["root", "transformer.h.0+transformer.h.1"], names
assert len(starts(plain, "first_microbatch")) == 4
assert starts(ample, "first_microbatch") == []
assert sorted(starts(ample, "update")) == sorted(names)
assert (
    ample["communication"]["exposed_ms"] < plain["communication"]["exposed_ms"]
)
