# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Whether the file holds 0, 1, 2… where the module says that a float
# initializer's bytes lie.

import re
import struct
import sys

data = open(sys.argv[1], "rb").read()
found = re.findall(r"tensor<[\dx]*xf32> from \"[^\"]*\"\[(\d+), (\d+)\]", open(sys.argv[2]).read())
assert len(found) == 4, found
for offset, length in found:
    raw = data[int(offset) : int(offset) + int(length)]
    values = struct.unpack("<%df" % (len(raw) // 4), raw)
    assert list(values) == [float(i) for i in range(len(values))], values
