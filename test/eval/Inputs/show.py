# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Prints every .npy file of a folder: name, dtype, shape, elements.

import os
import struct
import sys

FORMATS = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q"}
for name in sorted(os.listdir(sys.argv[1])):
    data = open(os.path.join(sys.argv[1], name), "rb").read()
    (length,) = struct.unpack("<H", data[8:10])
    assert data[:6] == b"\x93NUMPY" and (10 + length) % 64 == 0, name
    header = eval(data[10 : 10 + length])
    elements = data[10 + length :]
    size = struct.calcsize(FORMATS[header["descr"]])
    values = struct.unpack("<%d%s" % (len(elements) // size, FORMATS[header["descr"]]), elements)
    print(name, header["descr"], list(header["shape"]), [round(v, 6) for v in values])
