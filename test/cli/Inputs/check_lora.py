# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_lora.py base INSPECTION | names ADAPTER PEFTS | losses RUN OTHER… |
# same RUN OTHER… | packed INSPECTION WITHOUT

import json
import struct
import sys


def tensors(folder):
    with open(folder + "/adapter_model.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"]) for name, entry in header.items()}


def base(path):
    """Only adapters are trained, reduced and in the gradients' space."""
    with open(path) as file:
        program = json.load(file)
    trained = 0
    for unit in program["units"]:
        for param in unit["params"]:
            assert param["trainable"] == (".lora_" in param["name"]), param["name"]
            trained += param["elements"] if param["trainable"] else 0
        assert unit["gradient_bytes"] == 4 * unit["length"], unit["name"]
        assert unit["length"] < 256 * (1 + len(unit["params"])) + trained
    assert trained == sum(unit["trainable"] for unit in program["units"]) > 0


def names(mine, theirs):
    assert tensors(mine) == tensors(theirs)
    ours, pefts = (json.load(open(f + "/adapter_config.json")) for f in (mine, theirs))
    for key in ("peft_type", "r", "lora_alpha", "lora_dropout", "use_rslora", "use_dora", "bias", "fan_in_fan_out"):
        assert ours[key] == pefts[key], (key, ours[key], pefts[key])
    assert set(ours) <= set(pefts), set(ours) - set(pefts)


def losses(first, *others):
    def last(path):
        rows = [json.loads(line) for line in open(path)]
        return [row["eval_loss"] for row in rows if "eval_loss" in row][-1]

    for other in others:
        assert abs(last(other) / last(first) - 1) < 1e-6, (other, last(other), last(first))


def same(first, *others):
    """Equal losses at the steps that both runs have."""
    def steps(path):
        return {row["step"]: row["loss"] for row in map(json.loads, open(path))}

    wanted = steps(first)
    for other in others:
        for step, loss in steps(other).items():
            assert abs(loss / wanted[step] - 1) < 2e-4, (other, step, loss, wanted[step])


def packed(path, without):
    def frozen(program):
        return sum(u["frozen_length"] for u in program["units"] if "layers" in u["name"])

    with open(path) as file, open(without) as other:
        program, plain = json.load(file), json.load(other)
    for unit in program["units"]:
        for param in unit["params"]:
            linear = "_proj.weight" in param["name"]
            assert (param.get("packing") == "nf4") == linear, param["name"]
            if linear:  # four bits, a byte for 64 elements, and little more
                bits = param["length"] * 16 / param["elements"]
                assert 4.12 < bits < 4.3, (param["name"], bits)
    assert frozen(program) < 0.4 * frozen(plain), (frozen(program), frozen(plain))


{"base": base, "same": same, "packed": packed, "names": names, "losses": losses}[sys.argv[1]](*sys.argv[2:])
