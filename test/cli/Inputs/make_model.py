# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Writes a small ONNX model with something wrong about it, with nothing but the
# protobuf wire format (field numbers from onnx.proto):
#
#   make_model.py KIND OUT.onnx [ARGUMENT]
#
#   external        x [batch, 8, 16] times w [16, 300] gives logits; w is in the
#                   file ARGUMENT, 19200 bytes of it
#   external-shape  x reshaped as the int64s in the file ARGUMENT say
#   two-outputs     the same with w inside, and the logits under another name too
#   unsupported     three nodes of two kinds that are not supported
#   loss            the cross-entropy of the logits and labels [batch, 8], of
#                   which those equal to -1 do not count; ARGUMENT: mean or sum,
#                   none (of which the model takes the mean), or doubled: the
#                   mean with labels that the graph doubles

import struct
import sys

FLOAT, INT64 = 1, 7


def varint(value):
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, *parts):
    body = b"".join(p.encode() if isinstance(p, str) else p for p in parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def value_info(field, name, shape, dtype=FLOAT):
    dims = [
        message(1, message(2, d) if isinstance(d, str) else number(1, d))
        for d in shape
    ]
    tensor_type = message(1, number(1, dtype), message(2, *dims))
    return message(field, message(1, name), message(2, tensor_type))


def attribute(name, value):
    if isinstance(value, str):
        return message(5, message(1, name), message(4, value), number(20, 3))
    if isinstance(value, list):
        items = [number(8, item) for item in value]
        return message(5, message(1, name), *items, number(20, 7))
    signed = value & 0xFFFFFFFFFFFFFFFF
    return message(5, message(1, name), number(3, signed), number(20, 2))


def node(op, inputs, outputs, **attributes):
    return message(
        1,
        *[message(1, name) for name in inputs],
        *[message(2, name) for name in outputs],
        message(3, "node_" + outputs[0]),
        message(4, op),
        *[attribute(name, value) for name, value in attributes.items()],
    )


def weight(name, shape, external=None, dtype=FLOAT):
    parts = [number(1, d) for d in shape] + [number(2, FLOAT), message(8, name)]
    if external is None:
        count = shape[0] * shape[1]
        values = [((i * 37) % 101 - 50) / 500 for i in range(count)]
        parts.append(message(9, struct.pack(f"<{count}f", *values)))
    else:
        parts[-2] = number(2, dtype)
        parts.append(message(13, message(1, "location"), message(2, external)))
        parts.append(number(14, 1))
    return message(5, *parts)


def model(nodes, weights, inputs, outputs):
    graph = message(7, *nodes, message(2, "g"), *weights, *inputs, *outputs)
    return number(1, 10) + graph + message(8, number(2, 18))


def build(kind, argument):
    x = value_info(11, "x", ["batch", 8, 16])
    logits = value_info(12, "logits", ["batch", 8, 300])
    if kind == "unsupported":
        nodes = [
            node("NonMaxSuppression", ["x", "x"], ["a"]),
            node("Cast", ["a"], ["f"], to=FLOAT),
            node("Multinomial", ["f"], ["b"], dtype=INT64),
            node("Cast", ["b"], ["g"], to=FLOAT),
            node("Multinomial", ["g"], ["y"], dtype=INT64),
        ]
        y = value_info(12, "y", ["rows", "columns"], INT64)
        return model(nodes, [], [x], [y])
    if kind == "external-shape":
        reshape = node("Reshape", ["x", "shape"], ["y"])
        shape = weight("shape", [2], argument, INT64)
        y = value_info(12, "y", ["rows", "columns"])
        return model([reshape], [shape], [x], [y])
    product = node("MatMul", ["x", "w"], ["logits"])
    w = weight("w", [16, 300], argument if kind == "external" else None)
    if kind == "external":
        return model([product], [w], [x], [logits])
    if kind == "two-outputs":
        again = node("Neg", ["logits"], ["scores"])
        scores = value_info(12, "scores", ["batch", 8, 300])
        return model([product, again], [w], [x], [logits, scores])
    if kind == "loss":
        labels = value_info(11, "labels", ["batch", 8], INT64)
        classes = node("Transpose", ["logits"], ["classes"], perm=[0, 2, 1])
        nodes = [product, classes]
        if argument == "doubled":
            nodes.append(node("Add", ["labels", "labels"], ["doubled"]))
        nodes.append(
            node(
                "SoftmaxCrossEntropyLoss",
                ["classes", "doubled" if argument == "doubled" else "labels"],
                ["losses" if argument == "none" else "loss"],
                ignore_index=-1,
                reduction="mean" if argument == "doubled" else argument,
            )
        )
        if argument == "none":
            nodes.append(node("ReduceMean", ["losses"], ["loss"], keepdims=0))
        result = value_info(12, "loss", [])
        return model(nodes, [w], [x, labels], [result])
    sys.exit(f"make_model.py: no kind '{kind}'")


with open(sys.argv[2], "wb") as file:
    file.write(build(sys.argv[1], sys.argv[3] if len(sys.argv) > 3 else None))
