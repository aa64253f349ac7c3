# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Counts the bytes that each rank sends in a step from the units and calls of
# `shardonnx inspect --json`, strategy by strategy, and compares.

import json
import sys


def units_of(report, function, op):
    """The units that a function calls an op for, in order."""
    calls = next(f for f in report["functions"] if f["name"] == function)
    units = {unit["name"]: unit for unit in report["units"]}
    return [units[c["unit"]] for c in calls["collectives"] if c["op"] == op]


def sent(bytes, ranks):
    """Of what `ranks` ranks gather or scatter, each keeps one part."""
    assert bytes % ranks == 0
    return bytes // ranks * (ranks - 1)


def count(report):
    """(all_gather, reduce_scatter, all_reduce) by the strategy's own rule."""
    told = report["bytes_sent"]
    ranks, replicas = told["ranks"], report["memory"].get("replicas", 1)
    steps = told["microbatches"]
    parameters = sum(unit["gathered_bytes"] for unit in report["units"])
    gradients = sum(unit["gradient_bytes"] for unit in report["units"])
    master = sum(4 * unit["length"] for unit in report["units"])
    gathers = units_of(report, "first_microbatch", "gather_start")
    again = sum(u["gathered_bytes"] for u in gathers) - parameters
    strategy = report["strategy"]
    if strategy == "no_shard":
        return 0, 0, 2 * sent(gradients, ranks) * steps
    if strategy == "full_shard":
        assert again > 0  # at least one block is gathered twice
        return (sent(parameters + again, ranks) * steps,
                sent(gradients, ranks) * steps, 0)
    if strategy == "shard_grad_op":
        assert again == 0
        return sent(parameters, ranks) * steps, sent(gradients, ranks) * steps, 0
    if strategy == "shard_opt":
        assert not gathers and all(u["kept"] for u in report["units"])
        return sent(parameters, ranks), sent(gradients, ranks), 0
    group = ranks // replicas
    return (sent(parameters + again, group) * steps,
            sent(gradients, group) * steps,
            2 * sent(master // group, replicas))


for path in sys.argv[1:]:
    with open(path) as file:
        report = json.load(file)
    told = report["bytes_sent"]
    kinds = ("all_gather", "reduce_scatter", "all_reduce")
    assert tuple(told[kind] for kind in kinds) == count(report), (path, told)
print("ok")
