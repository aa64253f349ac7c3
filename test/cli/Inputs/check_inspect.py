# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Checks what `shardonnx inspect --json` says about Inputs/program.json for 3
# ranks of 2 threads, against the rules it must follow rather than its digits.

import json
import sys

report = json.load(sys.stdin)
assert report["strategy"] == "full_shard" and not report["loss"]["opaque"]

for unit in report["units"]:
    # Ranks own consecutive slices that cover the unit.
    at = 0
    for rank, part in enumerate(unit["owned"]):
        assert part["rank"] == rank and part["begin"] == at, unit["name"]
        at = part["end"]
    assert at == unit["length"], unit["name"]
    for param in unit["params"]:
        owned = sum(part["end"] - part["begin"] for part in param["owned"])
        assert owned == param["elements"], param["name"]
    assert unit["trainable"] == sum(
        p["elements"] for p in unit["params"] if p["trainable"]
    )

memory = report["memory"]
assert memory["peak_bytes"] == sum(item["bytes"] for item in memory["items"])
assert memory["ranks"] == 3 and memory["threads_per_rank"] == 2
assert memory["spaces"]["private"]["live"][0]["bytes"] == 1048576
assert report["functions"][0]["collectives"][1] == {
    "op": "gather_start",
    "unit": "h.0",
}
assert "unit" not in report["functions"][1]["collectives"][1]
print("ok")
