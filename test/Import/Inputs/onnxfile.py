# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Writes ONNX files by their wire format, so that tests need no ONNX package and
# can write what such a package would refuse. Field numbers are those of
# onnx.proto.

import struct
import sys

FLOAT, INT64, BOOL = 1, 7, 9


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def props(number, entries):
    return b"".join(
        field(number, field(1, k) + field(2, v)) for k, v in entries.items()
    )


def tensor(name, dims, dtype=FLOAT, raw=None, floats=None, ints=None, external=None):
    out = b"".join(field(1, d) for d in dims) + field(2, dtype)
    if floats is not None:
        out += field(4, struct.pack("<%df" % len(floats), *floats))
    if ints is not None:
        out += field(7, b"".join(varint(i) for i in ints))
    out += field(8, name)
    if raw is not None:
        out += field(9, raw)
    if external is not None:
        out += props(13, external) + field(14, 1)
    return out


def int64s(name, values):
    return tensor(name, [len(values)], INT64, raw=struct.pack("<%dq" % len(values), *values))


def attribute(name, value):
    out = field(1, name)
    if isinstance(value, list) and value and isinstance(value[0], str):
        return out + b"".join(field(9, item) for item in value) + field(20, 8)
    if isinstance(value, bytes):  # a TensorProto
        return out + field(5, value) + field(20, 4)
    if isinstance(value, float):
        return out + field(2, value) + field(20, 1)
    if isinstance(value, int):
        return out + field(3, value) + field(20, 2)
    if isinstance(value, str):
        return out + field(4, value) + field(20, 3)
    if isinstance(value, Graph):
        return out + field(6, value.bytes) + field(20, 5)
    return out + b"".join(field(8, v) for v in value) + field(20, 7)


class Graph:
    def __init__(self, bytes):
        self.bytes = bytes


def node(op, inputs, outputs, name="", domain="", meta={}, refers={}, **attributes):
    """`refers`: attributes that have the value of one of the function's: its
    name, and its type's number."""
    out = b"".join(field(1, i) for i in inputs)
    out += b"".join(field(2, o) for o in outputs)
    out += field(3, name) + field(4, op)
    out += b"".join(field(5, attribute(k, v)) for k, v in attributes.items())
    out += b"".join(
        field(5, field(1, k) + field(20, kind) + field(21, other))
        for k, (other, kind) in refers.items()
    )
    if domain:
        out += field(7, domain)
    return out + props(9, meta)


def value(name, dims, dtype=FLOAT, meta={}):
    """A dimension is a number, a name, or None."""
    shape = b""
    for d in dims:
        one = b"" if d is None else field(1 if isinstance(d, int) else 2, d)
        shape += field(1, one)
    kind = field(1, field(1, dtype) + field(2, shape))
    return field(1, name) + field(2, kind) + props(4, meta)


def graph(nodes, inputs, outputs, initializers=[], values=[], meta={}):
    out = b"".join(field(1, n) for n in nodes) + field(2, "g")
    out += b"".join(field(5, i) for i in initializers)
    out += b"".join(field(11, i) for i in inputs)
    out += b"".join(field(12, o) for o in outputs)
    out += b"".join(field(13, v) for v in values)
    return Graph(out + props(16, meta))


def model(graph, opset=18, functions=[], domains=[], producer="", meta={}, ir=8):
    out = field(1, ir) + field(2, producer) + field(7, graph.bytes) + props(14, meta)
    if opset is not None:
        out += field(8, field(1, "") + field(2, opset))
    out += b"".join(field(8, field(1, d) + field(2, 1)) for d in domains)
    return out + b"".join(field(25, f) for f in functions)


def function(name, domain, inputs, outputs, nodes, opset=18, defaults={}):
    out = field(1, name) + b"".join(field(4, i) for i in inputs)
    out += b"".join(field(11, attribute(k, v)) for k, v in defaults.items())
    out += b"".join(field(5, o) for o in outputs)
    out += b"".join(field(7, n) for n in nodes)
    return out + field(9, field(1, "") + field(2, opset)) + field(10, domain)


def floats(count, start=0.0):
    return struct.pack("<%df" % count, *[start + i for i in range(count)])


def write(data, path=None):
    with open(path or sys.argv[1], "wb") as file:
        file.write(data)
