# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the f32 weights inside an ONNX file as a .safetensors file.

So that PyTorch can start from them without the onnx package. Reads the few
fields of ONNX's protobuf messages that this takes.
"""

import json
import math
import struct

GRAPH, INITIALIZER = 7, 5  # fields of ModelProto and GraphProto
DIMS, DATA_TYPE, NAME, RAW_DATA = 1, 2, 8, 9  # fields of TensorProto
FLOAT = 1


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data):
    """Number and value of each field of a message: an int, or its bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            length, at = ((8, at) if kind == 1 else (4, at) if kind == 5
                          else varint(data, at))
            value = data[at:at + length]
            if len(value) != length:
                raise ValueError("a field is cut off")
            at += length
        yield key >> 3, value


def dims_of(tensor):
    """Both of protobuf's forms: one number a field, or packed."""
    for number, value in fields(tensor):
        if number == DIMS and isinstance(value, int):
            yield value
        elif number == DIMS:
            at = 0
            while at < len(value):
                dim, at = varint(value, at)
                yield dim


def floats(path):
    """Name -> shape and bytes of the f32 initializers."""
    with open(path, "rb") as file:
        model = memoryview(file.read())
    found = {}
    for graph in (v for n, v in fields(model) if n == GRAPH):
        for tensor in (v for n, v in fields(graph) if n == INITIALIZER):
            parts = {n: v for n, v in fields(tensor) if n != DIMS}
            if parts.get(DATA_TYPE) != FLOAT or RAW_DATA not in parts:
                continue
            shape = list(dims_of(tensor))
            if math.prod(shape) * 4 != len(parts[RAW_DATA]):
                raise ValueError(f"{bytes(parts[NAME]).decode()}: "
                                 f"{len(parts[RAW_DATA])} bytes are not "
                                 f"{shape}")
            found[bytes(parts[NAME]).decode()] = shape, parts[RAW_DATA]
    return found


def write_safetensors(tensors, path):
    header, offset = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, data in tensors.values():
            file.write(data)
