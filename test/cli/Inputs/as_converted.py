# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What tools/checkpoint-convert makes of a .pt file, made without PyTorch: the
# parameters under the names of a state dict, as trained and as tied as there,
# and a buffer that no program has.
#
#   as_converted.py CHECKPOINT OUT

import importlib.machinery
import importlib.util
import json
import os
import struct
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
VENV = os.path.join(ROOT, ".deps", "venv", "bin", "python")
try:
    import numpy
except ImportError:  # what ./setup installed has it
    os.execv(VENV, [VENV, *sys.argv])

loader = importlib.machinery.SourceFileLoader("convert", os.path.join(ROOT, "tools", "checkpoint-convert"))
convert = importlib.util.module_from_spec(importlib.util.spec_from_loader("convert", loader))
sys.dont_write_bytecode = True
loader.exec_module(convert)

BUFFER = "transformer.h.0.attn.bias"


def read_tensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(length)), file.read()
    header.pop("__metadata__")
    return {name: numpy.frombuffer(data[slice(*entry["data_offsets"])], "<f4") for name, entry in header.items()}


def write_tensors(path, tensors, identity):
    header, at = {"__metadata__": {"id": identity}}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": [values.size], "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(v.tobytes() for v in tensors.values()))


def main(source, target):
    index = convert.open_index(convert.newest(source))
    source = convert.newest(source)
    (entry,) = index["files"]  # of one rank
    tensors = read_tensors(os.path.join(source, entry["name"]))
    hashes = {True: 0, False: 0}
    for unit in index["units"]:
        for param in unit["params"]:
            param["name"], param["tied"] = param["state_dict"], []
            count = int(numpy.prod(param["shape"], dtype=numpy.int64))
            for array in ("master", "exp_avg", "exp_avg_sq") if param["trainable"] else ("frozen",):
                values = tensors[f"{unit['name']}/{array}"][param["offset"] :][:count]
                hashes[param["trainable"]] += convert.state_hash(param["name"], array, values)
    buffer = numpy.arange(4, dtype="<f4")
    hashes[False] += convert.state_hash(BUFFER, "frozen", buffer)
    tensors["buffers/frozen"] = buffer
    index["units"].append({
        "name": "buffers", "length": 0, "frozen_length": 4, "frozen_dtype": "f32", "slices": [],
        "frozen_slices": [{"file": 0, "begin": 0, "end": 4}],
        "params": [{"name": BUFFER, "onnx": BUFFER, "offset": 0, "shape": [4], "tied": [], "state_dict": BUFFER, "trainable": False}]})
    index["program"]["model"] = {"path": "", "sha256": ""}
    os.makedirs(target)
    path = os.path.join(target, entry["name"])
    write_tensors(path, tensors, index["id"])
    entry.update(bytes=os.path.getsize(path), hash=convert.file_hash(path))
    index["state_hash"] = {"trainable": f"{hashes[True] % 2**64:016x}", "frozen": f"{hashes[False] % 2**64:016x}"}
    del index["index_hash"]
    text = json.dumps(index, indent=1)[: -len("\n}")].encode()
    with open(os.path.join(target, "index.json"), "wb") as out:
        out.write(text + convert.seal(text))


main(*sys.argv[1:])
