# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Whether two .safetensors files have the same names, and which of their tensors
# have the same bytes.

import json
import struct
import sys


def read(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(*struct.unpack("<Q", file.read(8))))
        data = file.read()
    metadata = header.pop("__metadata__")
    return {**metadata, **{name: data[slice(*entry["data_offsets"])] for name, entry in header.items()}}


first, second = map(read, sys.argv[1:])
if first.keys() != second.keys():
    sys.exit(f"different names: {first.keys() ^ second.keys()}")
equal = sorted(name for name in first if isinstance(first[name], bytes) and first[name] == second[name])
print("the same names, equal:", " ".join(equal))
