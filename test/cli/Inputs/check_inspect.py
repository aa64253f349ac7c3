# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Checks what `shardonnx inspect --json` says for 3 ranks, against the rules that
# it must follow rather than its digits.

import json
import sys

report = json.load(sys.stdin)
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
assert memory["ranks"] == 3
for space in memory["spaces"].values():
    assert space["bytes"] >= space["lower_bound_bytes"]
    assert sum(buffer["bytes"] for buffer in space["live"]) <= space["bytes"]
    sizes = [buffer["bytes"] for buffer in space["live"]]
    assert sizes == sorted(sizes, reverse=True)

flops = sum(unit["flops"] for unit in report["units"])
assert flops == report["flops_per_microbatch"] > 0

# Collectives name known units, and what is gathered is freed.
units = {unit["name"] for unit in report["units"]}
for function in report["functions"]:
    for call in function["collectives"]:
        assert call.get("unit", "root") in units, call
        assert ("unit" in call) == (call["op"] != "clip_grad_norm"), call
    ops = [call["op"] for call in function["collectives"]]
    if "gather_free" in ops:
        assert ops.count("gather_wait") == ops.count("gather_free")
assert [f["name"] for f in report["functions"]].count("update") == 1
print("ok")
