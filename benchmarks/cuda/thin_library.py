# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a CUDA library small enough to travel: one GPU architecture, no more.

Device code for other architectures, code that only a device linker reads and
debug information become zeros or go, and the rest is compressed. Nothing
moves, so what stays is as its maker wrote it.
"""

import lzma
import os
import struct
import subprocess
import tempfile

FAT_BINARY = 0xBA55ED50
HEADER = struct.Struct("<IHHQ")  # magic, version, length, length of entries
ENTRY = struct.Struct("<HHIQ12xI")  # kind, version, length, payload, arch
CUBIN = 2


def sections(data):
    """Name -> offset and length of each section of an ELF file."""
    table, = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    headers = [struct.unpack_from("<IIQQQQ", data, table + 64 * i)
               for i in range(count)]
    found = {}
    for header in headers:
        begin = headers[names][4] + header[0]
        name = bytes(data[begin:data.index(0, begin)]).decode()
        found[name] = header[4], header[5]
    return found


def keep_architecture(data, begin, length, arch):
    """Empties what is not a cubin for `arch`; returns how many are left."""
    at, end, kept = begin, begin + length, 0
    while at + HEADER.size <= end:
        magic, _, size, entries = HEADER.unpack_from(data, at)
        if magic != FAT_BINARY:
            at += 8
            continue
        at += size
        stop = at + entries
        while at < stop:
            kind, _, size, payload, which = ENTRY.unpack_from(data, at)
            at += size
            if kind == CUBIN and which == arch:
                kept += 1
            else:
                data[at:at + payload] = bytes(payload)
            at += payload
        if at != stop:
            raise ValueError("device code of an unknown layout")
    return kept


def thin(source, target, arch):
    """Writes `source` to `target`, an .xz file."""
    with tempfile.TemporaryDirectory() as folder:
        stripped = os.path.join(folder, "stripped")
        subprocess.run(["strip", "--strip-unneeded", source, "-o", stripped],
                       check=True)
        with open(stripped, "rb") as file:
            data = bytearray(file.read())
    found = sections(data)
    if not keep_architecture(data, *found[".nv_fatbin"], arch):
        raise ValueError(f"{source} has no code for sm_{arch}")
    begin, length = found.get("__nv_relfatbin", (0, 0))
    data[begin:begin + length] = bytes(length)
    with lzma.open(target, "wb", preset=6) as file:
        file.write(data)
