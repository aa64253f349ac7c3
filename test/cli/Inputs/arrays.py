# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Writes array files, without a library: arrays.py KIND… makes
# KIND.safetensors of each.
#
#   repeat   input_ids [8, 128] and labels that are the same, but for the first
#            of each sample, which do not count
#   next     the same with the next tokens as labels
#   none     the same with labels none of which counts
#   classes  x [32, 8, 16] and labels [32, 8], of which each sample's last two
#            are -1
#   beyond   the same with a label of 300
#   later    the same with one in the last sample
#   seven    x [7, 20] and labels [7, 12]
#   spoilt   x [8, 20] and labels [8, 12], NaN at place 3 of x's sample 5

import json
import math
import struct
import sys


def classes(kind):
    labels = [-1 if i % 8 > 5 else i * 7 % 300 for i in range(32 * 8)]
    if kind == "beyond":
        labels[0] = 300
    if kind == "later":
        labels[31 * 8 + 5] = 300
    x = [(i * 29 % 83 - 41) / 40 for i in range(32 * 8 * 16)]
    return {
        "x": ("F32", [32, 8, 16], struct.pack(f"<{len(x)}f", *x)),
        "labels": ("I64", [32, 8], struct.pack(f"<{len(labels)}q", *labels)),
    }


def regression(samples):
    x = [(i * 29 % 83 - 41) / 40 for i in range(samples * 20)]
    if samples == 8:
        x[5 * 20 + 3] = math.nan
    labels = [(i * 31 % 71 - 35) / 30 for i in range(samples * 12)]
    return {"x": ("F32", [samples, 20], struct.pack(f"<{len(x)}f", *x)),
            "labels": ("F32", [samples, 12],
                       struct.pack(f"<{len(labels)}f", *labels))}


def tokens(kind):
    ids, labels = [], []
    for sample in range(8):
        row = [(sample * 97 + i * 31) % 251 for i in range(128)]
        ids += row
        if kind == "repeat":
            labels += [-100] + row[1:]
        elif kind == "next":
            labels += row[1:] + [-100]
        else:
            labels += [-100] * 128
    return {
        "input_ids": ("I64", [8, 128], struct.pack(f"<{len(ids)}q", *ids)),
        "labels": ("I64", [8, 128], struct.pack(f"<{len(labels)}q", *labels)),
    }


for kind in sys.argv[1:]:
    if kind in ("seven", "spoilt"):
        arrays = regression(7 if kind == "seven" else 8)
    else:
        arrays = classes(kind) if kind in ("classes", "beyond", "later") else tokens(kind)
    header, at = {}, 0
    for name, (dtype, shape, data) in arrays.items():
        offsets = [at, at + len(data)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        at += len(data)
    text = json.dumps(header).encode()
    with open(kind + ".safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in arrays.values():
            file.write(data)
