# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# retype_tensor.py IN.safetensors NAME DTYPE OUT.safetensors
#
# The f32 tensor of that name as so many bytes of another type, as files of
# quantised models have theirs.

import json
import struct
import sys

source, name, dtype, target = sys.argv[1:]
with open(source, "rb") as file:
    (length,) = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(length))
    data = file.read()
begin, end = header[name]["data_offsets"]
header[name] |= {"dtype": dtype, "shape": [end - begin, 1]}
text = json.dumps(header).encode()
with open(target, "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
