# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A module with frozen parameters, small and stored in every way that a file
# may have, one that nothing reads, and a tied one: a model, its data, and what
# the state dict must be.
#
#   write_back.py model MODEL | write_back.py data FILE | write_back.py show FILE

import json

from onnxfile import *

FLOAT16, BFLOAT16 = 10, 16
PARAMETERS = [(["scale"], False), (["small", "tied.small"], False), (["half"], False), (["brain"], False),
              (["w", "head.w"], True), (["unread"], True)]


def write_model():
    module = {"version": 1, "parameters": [{"names": n, "requires_grad": g} for n, g in PARAMETERS], "buffers": []}
    write(model(graph(
        [
            node("Cast", ["half"], ["h"], "half_cast", to=FLOAT),
            node("Cast", ["brain"], ["b"], "brain_cast", to=FLOAT),
            node("Mul", ["x", "scale"], ["a1"], "n1"),
            node("Mul", ["a1", "small"], ["a2"], "n2"),
            node("Mul", ["a2", "h"], ["a3"], "n3"),
            node("Mul", ["a3", "b"], ["a4"], "n4"),
            node("MatMul", ["a4", "w"], ["a5"], "n5"),
            node("ReduceMean", ["a5"], ["loss"], "n6", keepdims=0),
        ],
        [value("x", [2, 4])], [value("loss", [])],
        [
            tensor("scale", [4], floats=[1.5, 2, 3, 4]),
            tensor("small", [], floats=[2.5]),
            tensor("half", [4], FLOAT16, raw=struct.pack("<4e", 1, 0.5, 0.25, 2)),
            tensor("brain", [4], BFLOAT16, raw=struct.pack("<4H", 0x3F80, 0x4000, 0x4040, 0x4080)),
            tensor("w", [4, 4], raw=floats(16)),
            tensor("unread", [2], raw=struct.pack("<2f", 7, 8)),
        ],
    ), meta={"shardonnx.module": json.dumps(module)}))


def write_data(path):
    header = json.dumps({"x": {"dtype": "F32", "shape": [8, 4], "data_offsets": [0, 128]}}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + struct.pack("<32f", *range(32)))


def show(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(*struct.unpack("<Q", file.read(8))))
        data = file.read()
    print(header.pop("__metadata__"))
    for name, entry in header.items():
        values = struct.iter_unpack("<f", data[slice(*entry["data_offsets"])])
        print(name, entry["shape"], *([] if name == "w" else (v for (v,) in values)))


kind = sys.argv.pop(1)
write_model() if kind == "model" else write_data(sys.argv[1]) if kind == "data" else show(sys.argv[1])
