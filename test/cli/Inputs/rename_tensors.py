# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Writes a .safetensors file with other names:
#
#   rename_tensors.py IN OUT FROM=TO…
#
# Each FROM=TO is a whole set of names, in which FROM becomes TO; several of them
# have the same bytes.

import json
import struct
import sys

source, target, *rules = sys.argv[1:]
with open(source, "rb") as file:
    (length,) = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(length))
    data = file.read()
metadata = header.pop("__metadata__", {})
renamed = {"__metadata__": metadata}
for rule in rules:
    old, new = rule.split("=")
    for name, entry in header.items():
        renamed[(new + name) if old == "" else name.replace(old, new)] = entry
if len(rules) > 1:  # no two tensors lie on the same bytes
    at, blobs = 0, []
    for name, entry in list(renamed.items())[1:]:
        begin, end = entry["data_offsets"]
        blobs.append(data[begin:end])
        renamed[name] = {**entry, "data_offsets": [at, at + end - begin]}
        at += end - begin
    data = b"".join(blobs)
text = json.dumps(renamed).encode()
with open(target, "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
