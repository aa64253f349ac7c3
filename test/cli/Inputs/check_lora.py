# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_lora.py base INSPECTION | names ADAPTER PEFTS | losses RUN OTHER…

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


{"base": base, "names": names, "losses": losses}[sys.argv[1]](*sys.argv[2:])
