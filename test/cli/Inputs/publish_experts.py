# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# publish_experts.py IN.safetensors mixtral|qwen OUT.safetensors [WITHOUT]
#
# The same weights as transformers' save_pretrained writes them: each expert's
# matrices by themselves. A tensor whose name ends with WITHOUT is left out.

import json
import re
import struct
import sys

GATE, UP, DOWN = {"mixtral": ("w1", "w3", "w2"), "qwen": ("gate_proj", "up_proj", "down_proj")}[sys.argv[2]]


def pieces(name, shape):
    """The names and shapes that lie in the tensor, one behind the other."""
    found = re.fullmatch(r"(.*\.experts)\.(gate_up|down)_proj", name)
    if not found:
        return [(name, shape)]
    parts = (GATE, UP) if found[2] == "gate_up" else (DOWN,)
    return [(f"{found[1]}.{e}.{part}.weight", [shape[1] // len(parts), shape[2]]) for e in range(shape[0]) for part in parts]


def main():
    with open(sys.argv[1], "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    published = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        made = pieces(name, entry["shape"])
        size = (end - begin) // len(made)
        for i, (piece, shape) in enumerate(made):
            if sys.argv[2] == "mixtral":
                piece = piece.replace(".mlp.", ".block_sparse_moe.")
            if len(sys.argv) > 4 and piece.endswith(sys.argv[4]):
                continue
            published[piece] = {"dtype": entry["dtype"], "shape": shape, "data_offsets": [begin + i * size, begin + (i + 1) * size]}
    text = json.dumps(published).encode()
    with open(sys.argv[3], "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


main()
