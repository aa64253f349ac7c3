# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# shard_tensors.py IN.safetensors BF16|F16 FOLDER ROUNDED.safetensors
#
# What save_pretrained writes of a model in that type, in two shards; and the
# same values in f32.

import json
import os
import struct
import sys

import numpy


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: numpy.frombuffer(data[begin:], "<f4", (e["data_offsets"][1] - e["data_offsets"][0]) // 4,
                                   e["data_offsets"][0]).reshape(e["shape"]) for name, e in header.items()}


def narrow(values, dtype):
    """Its bits, and the values that they stand for."""
    if dtype == "F16":
        half = values.astype("<f2")
        return half, half.astype("<f4")
    bits = values.view("<u4")
    high = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
    return high, (high.astype("<u4") << 16).view("<f4")


def write(path, tensors, dtype):
    header, end = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(array.tobytes())


source, dtype, folder, rounded = sys.argv[1:]
pairs = {name: narrow(values, dtype) for name, values in read(source).items()}
write(rounded, {name: values for name, (_, values) in pairs.items()}, "F32")
os.makedirs(folder)
names, places = list(pairs), {}
for i in (0, 1):
    shard = f"model-0000{i + 1}-of-00002.safetensors"
    write(os.path.join(folder, shard), {name: pairs[name][0] for name in names[i::2]}, dtype)
    places |= {name: shard for name in names[i::2]}
with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
    json.dump({"metadata": {}, "weight_map": places}, file)
