#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the seeds that the fuzz targets begin with: seeds.py FOLDER [TARGET…].

They are small valid files and known bad ones: the import tests' models, graphs
of one node for each op with attributes or shapes of its own, exported
transformers without their weights, and data files, checkpoints and manifests
of a few hundred bytes. Python's own library is enough.
"""

import io
import json
import pathlib
import re
import struct
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "test/Import/Inputs"
sys.path.insert(0, str(MODELS))
import onnxfile as onnx  # noqa: E402

FLOAT, INT64, BOOL = onnx.FLOAT, onnx.INT64, onnx.BOOL

# Exports that are unlike each other.
EXPORTS = ("gpt2-18", "gpt2-23-optimized", "gpt2-eager", "gpt2-labels",
           "llama-18-optimized", "llama-23", "smollm3-18")


def ints(*values):
    return list(values)


# Op, the shapes of float inputs or integers that are constants, attributes.
OPS = [
    ("Add", [[2, 3], [3]], {}), ("Sub", [[2, 1, 3], [4, 1]], {}),
    ("Div", [[2, 3], [2, 1]], {}), ("Pow", [[2, 3], []], {}),
    ("Sqrt", [[4]], {}), ("Erf", [[2, 3]], {}), ("Tanh", [[2, 3]], {}),
    ("Gelu", [[2, 3]], {"approximate": "tanh"}), ("Selu", [[2]], {}),
    ("LeakyRelu", [[2, 3]], {"alpha": 0.1}), ("HardSwish", [[2, 3]], {}),
    ("Clip", [[2, 3], [], []], {}), ("Where", ["b2,3", [2, 3], [3]], {}),
    ("MatMul", [[2, 3, 4], [4, 5]], {}), ("MatMul", [[4], [4, 5]], {}),
    ("Gemm", [[4, 2], [3, 4], [3]], {"transA": 1, "transB": 1, "alpha": 0.5}),
    ("Einsum", [[2, 3, 4], [2, 4, 5]], {"equation": "bij,bjk->bik"}),
    ("Conv", [[1, 3, 8, 8], [4, 3, 4, 4], [4]], {"strides": ints(4, 4)}),
    ("MaxPool", [[1, 2, 6, 6]], {"kernel_shape": ints(2, 2)}),
    ("AveragePool", [[1, 2, 6, 6]], {"kernel_shape": ints(3, 3)}),
    ("GlobalAveragePool", [[1, 2, 3, 3]], {}),
    ("Softmax", [[2, 3, 4]], {"axis": 1}), ("LogSoftmax", [[2, 3]], {}),
    ("ReduceSum", [[2, 3, 4], ints(-1)], {"keepdims": 0}),
    ("ReduceMean", [[2, 3, 4], ints(0, 2)], {}),
    ("ReduceMax", [[2, 3], ints(1)], {}), ("ReduceL2", [[2, 3]], {}),
    ("ArgMax", [[2, 3]], {"axis": 1}), ("TopK", [[2, 5], ints(2)], {}),
    ("CumSum", [[2, 3], 1], {"reverse": 1}),
    ("LayerNormalization", [[2, 3, 4], [4], [4]], {"axis": -1}),
    ("RMSNormalization", [[2, 3, 4], [4]], {}),
    ("BatchNormalization", [[2, 3, 4], [3], [3], [3], [3]], {}),
    ("InstanceNormalization", [[2, 3, 4], [3], [3]], {}),
    ("GroupNormalization", [[2, 4, 3], [4], [4]], {"num_groups": 2}),
    ("Reshape", [[2, 3, 4], ints(0, -1)], {}),
    ("Transpose", [[2, 3, 4]], {"perm": ints(2, 0, 1)}),
    ("Slice", [[4, 6], ints(1), ints(-1), ints(1), ints(2)], {}),
    ("Concat", [[2, 3], [2, 4]], {"axis": -1}),
    ("Split", [[2, 6], ints(2, 4)], {"axis": 1}),
    ("Squeeze", [[2, 1, 3], ints(1)], {}),
    ("Unsqueeze", [[2, 3], ints(0, -1)], {}),
    ("Expand", [[3, 1], ints(2, 1, 4)], {}), ("Tile", [[2, 3], ints(2, 1)], {}),
    ("Pad", [[2, 3], ints(0, 1, 1, 0)], {"mode": "reflect"}),
    ("Gather", [[5, 3], ints(0, -1)], {"axis": 0}),
    ("GatherElements", [[2], ints(1, 0)], {}),
    ("GatherND", [[4, 3], ints(1, 2)], {}),
    ("ScatterElements", [[4], ints(1, 3), [2]], {"reduction": "add"}),
    ("ScatterND", [[4], "i2,1", [2]], {}), ("Trilu", [[3, 4]], {"upper": 0}),
    ("OneHot", ["i3", 5, [2]], {}), ("DepthToSpace", [[1, 8, 2, 2]], {"blocksize": 2}),
    ("Dropout", [[2, 3]], {}), ("Identity", [[2, 3]], {}),
    ("Cast", [[2, 3]], {"to": 10}), ("Shape", [[2, 3]], {"start": 1}),
    ("Range", [0, 6, 2], {}), ("ConstantOfShape", [ints(2, 3)], {}),
    ("NonZero", [[2, 3]], {}), ("Size", [[2, 3]], {}),
    ("SoftmaxCrossEntropyLoss", [[3, 5], "i3"], {"ignore_index": -100}),
    ("NegativeLogLikelihoodLoss", [[3, 5], "i3"], {"reduction": "sum"}),
    ("Attention", [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]], {"is_causal": 1}),
    ("Attention", [[1, 3, 8], [1, 3, 4], [1, 3, 4]], {"q_num_heads": 4, "kv_num_heads": 2}),
    ("RotaryEmbedding", [[1, 2, 3, 4], [1, 3, 2], [1, 3, 2]], {}),
    ("SplitToSequence", [[2, 6]], {"axis": 1}), ("LSTM", [[2, 1, 3], [1, 8, 3], [1, 8, 2]], {"hidden_size": 2}),
]


def operand(index, kind):
    """An operand's name, its graph input or its initializer."""
    name = "xyzuvw"[index]
    if isinstance(kind, str):
        shape = [int(d) for d in kind[1:].split(",")]
        return onnx.value(name, shape, BOOL if kind[0] == "b" else INT64), None
    if isinstance(kind, int):
        return None, onnx.tensor(name, [], INT64, raw=struct.pack("<q", kind))
    return onnx.value(name, kind), None


def one_node(op, kinds, attributes, constant):
    """A graph of one node; its integer lists are initializers, and its other
    operands too where it is to be folded."""
    inputs, initializers, names = [], [], []
    for index, kind in enumerate(kinds):
        names.append("xyzuvw"[index])
        first_is_data = index == 0 and op not in ("ConstantOfShape", "Range")
        as_list = isinstance(kind, list) and not first_is_data and op in INDEXED
        if as_list:
            initializers.append(onnx.int64s(names[-1], kind))
        elif constant and isinstance(kind, list):
            count = 1
            for d in kind:
                count *= d
            initializers.append(onnx.tensor(names[-1], kind, raw=onnx.floats(count, 0.5)))
        else:
            value, initializer = operand(index, kind)
            inputs += [value] if value else []
            initializers += [initializer] if initializer else []
    node = onnx.node(op, names, ["out"], "node", **attributes)
    return onnx.model(onnx.graph([node], inputs, [onnx.field(1, "out")], initializers), 23)


INDEXED = {"ReduceSum", "ReduceMean", "ReduceMax", "TopK", "Reshape", "Slice", "Split", "Squeeze",
           "Unsqueeze", "Expand", "Tile", "Pad", "Gather", "GatherElements", "GatherND",
           "ConstantOfShape"}


def fields(data):
    """(number, payload or integer, all bytes) of a message's fields."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        begin, tag = at, varint()
        payload = None
        if tag & 7 == 0:
            payload = varint()
        else:
            size = {1: 8, 5: 4}.get(tag & 7) or varint()
            payload = data[at:at + size]
            at += size
        yield tag >> 3, payload, data[begin:at]


def without_weights(data):
    """A model whose larger initializers lie in a file that is not there."""
    def tensor(old):
        out = b""
        for number, payload, whole in fields(old):
            if number == 9 and len(payload) > 64:
                place = {"location": "none.bin", "length": str(len(payload))}
                whole = onnx.props(13, place) + onnx.field(14, 1)
            out += whole
        return out

    def graph(old):
        return b"".join(onnx.field(5, tensor(payload)) if number == 5 else whole
                        for number, payload, whole in fields(old))

    return b"".join(onnx.field(7, graph(payload)) if number == 7 else whole
                    for number, payload, whole in fields(data))


def exports():
    for name in EXPORTS:
        yield name, without_weights((ROOT / f"test/training/models/{name}.onnx").read_bytes())
    for name in ("classifier", "regressor"):
        yield name, (ROOT / f"test/training/models/{name}.onnx").read_bytes()


def compile_seeds():
    for index, (op, kinds, attributes) in enumerate(OPS):
        yield f"{op}-{index}", one_node(op, kinds, attributes, constant=False)
    yield from exports()


def import_seeds():
    for index, (op, kinds, attributes) in enumerate(OPS):
        for constant in (False, True):
            yield f"{op}-{index}{'-folded' if constant else ''}", one_node(op, kinds, attributes, constant)
    text = (MODELS / "broken.py").read_text()
    variants = [("broken.py", [kind]) for kind in re.findall(r'^    "(\w+)":', text, re.M)]
    variants += [(name, []) for name in ("basic.py", "metadata.py", "opset.py", "tied.py", "buffers.py")]
    variants += [("functions.py", [kind]) for kind in ("body", "defaults")]
    variants += [("external.py", words) for words in (
        ["w.bin", "64", "2048"], ["w.bin", "4000"], ["link.bin"], ["../w.bin"], ["/etc/passwd"],
        ["w.bin", "18446744073709551615"], ["w.bin", "x"], ["."], ["none.bin"])]
    for index, (script, words) in enumerate(variants):
        path = pathlib.Path(sys.argv[1]) / "import" / f"{script[:-3]}-{index}"
        subprocess.run([sys.executable, MODELS / script, path, *words], check=True)
        yield path.name, path.read_bytes()
    yield from exports()


def npy(descr, shape, raw, version=1, order="False"):
    header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n"
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + raw


def npz(arrays, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in arrays.items():
            with archive.open(name + ".npy", "w", force_zip64=method == zipfile.ZIP_STORED) as member:
                member.write(data)
    return out.getvalue()


def npz_seeds():
    tokens = struct.pack("<12q", *range(12))
    ids = {"input_ids": npy("<i8", "(3, 4)", tokens), "labels": npy("<i8", "(3, 4)", tokens)}
    images = {"pixels": npy("<f4", "(2, 2, 3)", bytes(48)), "classes": npy("|u1", "(2,)", b"\1\2", 2)}
    yield "stored", npz(ids)
    yield "deflated", npz(ids, zipfile.ZIP_DEFLATED)
    yield "images", npz(images)
    for type in ("<f2", "<f8", "<i4", "<u2", "|b1", ">f4"):
        size = int(type[2])
        yield "images-" + type[1:], npz({"pixels": npy(type, "(2, 2, 3)", bytes(12 * size)),
                                         "classes": npy("<i4", "(2,)", bytes(8))}, zipfile.ZIP_DEFLATED)
    mask = {"attention_mask": npy("|b1", "(3, 4)", b"\1" * 12)}
    yield "mask", npz({**ids, **mask})
    yield "fortran", npz({"input_ids": npy("<i8", "(3, 4)", tokens, 1, "True")})
    plain = npz(ids)
    end = plain.rfind(b"PK\5\6")
    _, _, _, _, entries, size, begin, _ = struct.unpack("<4s4H2LH", plain[end:end + 22])
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, entries, entries, size, begin)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, end, 1)
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 2**32 - 1, 2**32 - 1, 0)
    yield "zip64", plain[:end] + record + locator + last


def safetensors(arrays, metadata=None):
    header, at, raw = {}, 0, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, data) in arrays.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
        raw += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + raw


def safetensors_seeds():
    tokens = struct.pack("<12q", *range(12))
    ids = {"input_ids": ("I64", [3, 4], tokens), "labels": ("I64", [3, 4], tokens)}
    yield "tokens", safetensors(ids, {"format": "pt"})
    yield "mask", safetensors({**ids, "attention_mask": ("BOOL", [3, 4], b"\1" * 12),
                               "position_ids": ("I32", [3, 4], struct.pack("<12i", *[0, 1, 2, 3] * 3))})
    for type, size in (("F32", 4), ("F64", 8), ("BF16", 2), ("F16", 2), ("U8", 1), ("I8", 1)):
        yield "images-" + type, safetensors({"pixels": (type, [2, 2, 3], bytes(12 * size)),
                                             "classes": ("U16", [2], bytes(4))})
    yield "unknown", safetensors({"pixels": ("F8_E4M3", [2, 2, 3], bytes(12)), "classes": ("I32", [2], bytes(8))})


def token_seeds():
    tokens = [5, 0, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7]
    yield "u16", struct.pack("<13H", *tokens)
    yield "u32", struct.pack("<13I", *tokens)
    for magic, version, code in ((20240520, 1, "H"), (20240801, 7, "I")):
        yield f"llm.c-{code}", struct.pack("<256i", magic, version, 13, *[0] * 253) + struct.pack("<13" + code, *tokens)


def checkpoint_seeds():
    for optimizer, moments in (("adamw", ("exp_avg", "exp_avg_sq")), ("sgd", ("momentum",))):
        arrays = {f"blocks.0/{name}": ("F32", [8], bytes(32)) for name in ("master", *moments)}
        arrays["blocks.0/frozen"] = ("BF16", [4], bytes(8))
        file = safetensors(arrays, {"id": "7"})

        def param(name, shape, trainable):
            return {"name": name, "onnx": name, "offset": 0, "shape": shape, "tied": [],
                    "state_dict": name, "trainable": trainable}

        unit = {"name": "blocks.0", "length": 8, "frozen_length": 4, "frozen_dtype": "bf16",
                "params": [param("w", [2, 4], True), param("f", [3], False)],
                "slices": [{"file": 0, "begin": 0, "end": 8}],
                "frozen_slices": [{"file": 0, "begin": 0, "end": 4}]}
        index = json.dumps({
            "format": "shardonnx-checkpoint", "version": 1, "id": "7",
            "program": {"name": "p", "strategy": "full_shard", "optimizer": optimizer,
                        "model": {"path": "m.onnx", "sha256": ""}},
            "world_size": 1,
            "state": {"step": 3, "optimizer_steps": 3, "samples": 6, "loss_scale": 1.0, "clean_steps": 3},
            "options": {"seed": 0, "shuffle": False},
            "state_hash": {"trainable": "0" * 16, "frozen": "0" * 16},
            "files": [{"name": "rank-0.safetensors", "bytes": len(file)}],
            "units": [unit]}).encode()
        yield optimizer, struct.pack("<H", len(index)) + index + file


def manifest_seeds():
    yield "cli", (ROOT / "test/cli/Inputs/program.json").read_bytes()


def main():
    folder = pathlib.Path(sys.argv[1])
    kinds = {"compile": compile_seeds, "import": import_seeds, "npz": npz_seeds, "safetensors": safetensors_seeds,
             "tokens": token_seeds, "checkpoint": checkpoint_seeds, "manifest": manifest_seeds}
    for target in sys.argv[2:] or kinds:
        seeds = kinds[target]
        (folder / target).mkdir(parents=True, exist_ok=True)
        for name, data in seeds():
            (folder / target / name).write_bytes(data)


if __name__ == "__main__":
    main()
