# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Writes a small graph and values for its inputs into a folder:
#
#   graphs.py DIR KIND
#
# Values are 0, 1, 2…, so that results can be told by hand.

import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../Import/Inputs"))
from onnxfile import *

DOUBLE, INT32 = 11, 6
FORMATS = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q"}
folder, kind = sys.argv[1:]
os.makedirs(folder, exist_ok=True)


def npy(name, shape, values, descr="<f4", order="False", cut=0):
    text = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, order, tuple(shape))
    text = text.ljust(117) + "\n"
    data = struct.pack("<%d%s" % (len(values), FORMATS[descr]), *values)
    with open(os.path.join(folder, name + ".npy"), "wb") as file:
        file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + data[: len(data) - cut])


def save(nodes, inputs, outputs, initializers=[], opset=18):
    write(model(graph(nodes, inputs, outputs, initializers), opset), os.path.join(folder, "m.onnx"))


X = value("x", ["batch", 3])
npy("x", [2, 3], [float(i) for i in range(6)])

if kind == "linear":
    # y = x·w + b, of which the second column is negative.
    save(
        [node("MatMul", ["x", "w"], ["xw"]), node("Add", ["xw", "b"], ["/fc/y"]), node("Relu", ["/fc/y"], ["relu"])],
        [X], [value("/fc/y", ["batch", 2]), value("relu", ["batch", 2])],
        [tensor("w", [3, 2], raw=struct.pack("<6f", 1, -1, 0, -1, 1, -1)), tensor("b", [2], floats=[0.5, 0.25])])
    npy("f64", [2, 3], [0.0] * 6, "<f8")
    npy("wide", [2, 4], [0.0] * 8)
    npy("fortran", [2, 3], [0.0] * 6, order="True")
    npy("cut", [2, 3], [0.0] * 6, cut=1)
elif kind == "shape":
    # Reshape's shape is an input.
    save([node("Reshape", ["x", "shape"], ["y"])], [X, value("shape", [2], INT64)], [value("y", ["a", "b"])])
    npy("shape", [2], [3, -1], "<i8")
elif kind == "double":
    save([node("Add", ["d", "d"], ["y"])], [value("d", [2], DOUBLE)], [value("y", [2], DOUBLE)])
    npy("d", [2], [0.1, 0.2], "<f8")
elif kind == "empty":
    # A column is appended to none; the sum over no rows is zero.
    save(
        [node("Concat", ["none", "x"], ["y"], axis=1), node("MatMul", ["none", "rows"], ["z"])],
        [X, value("none", ["batch", 0]), value("rows", [0, 4])], [value("y", ["batch", 3]), value("z", ["batch", 4])])
    npy("none", [2, 0], [])
    npy("rows", [0, 4], [])
elif kind == "scalar":
    # Training takes the scalar for a constant; it has a gradient all the same.
    save([node("Mul", ["x", "c"], ["y"])], [X], [value("y", ["batch", 3])],
         [tensor("c", [], floats=[2.0]), tensor("unread", [2], raw=floats(2))])
elif kind == "integers":
    # Nothing flows to the input from an output of integers.
    save([node("Shape", ["x"], ["y"]), node("Cast", ["x"], ["z"], to=INT64)], [X],
         [value("y", [2], INT64), value("z", ["batch", 3], INT64)])
elif kind == "rows":
    save([node("Gather", ["table", "ids"], ["y"], axis=0)], [value("ids", ["n"], INT64)], [value("y", ["n", 2])],
         [tensor("table", [3, 2], raw=floats(6))])
    npy("ids", [3], [2, 0, -1], "<i8")
    npy("beyond", [1], [3], "<i8")
elif kind == "dropout":
    save([node("Dropout", ["x", "ratio", "training"], ["y"])], [X], [value("y", ["batch", 3])],
         [tensor("ratio", [], floats=[0.5]), tensor("training", [], BOOL, raw=b"\1")])
elif kind == "sizes":
    # Sizes of 1, and what is the same everywhere, in the ops that count or copy.
    save(
        [node("Where", ["everywhere", "row", "other"], ["chosen"]), node("Tile", ["deep", "repeats"], ["tiled"]),
         node("Trilu", ["one"], ["triangle"]), node("Pad", ["row", "pads", "value"], ["padded"]),
         node("CenterCropPad", ["row", "size"], ["cut"]), node("Add", ["nothing", "deeper"], ["none"]),
         node("HardSwish", ["value"], ["number"]),
         node("Split", ["deeper", "parts"], ["whole", "rest"], axis=2), node("Pad", ["nothing", "around"], ["hollow"]),
         node("Slice", ["long", "last", "before", "second", "last"], ["turned"]),
         node("Slice", ["turned", "zero", "two", "second"], ["ends"])],
        [value("row", [3]), value("other", [3]), value("deep", [1, 1, 2, 1, 1]), value("deeper", [1, 1, 2]),
         value("one", [1, 1]), value("value", []), value("long", [2, 32, 1, 1, 2])],
        [value("chosen", [2, 3]), value("tiled", [2, 2, 4, 2, 2]), value("triangle", [1, 1]), value("padded", [5]),
         value("cut", [1]), value("none", [0, 1, 2]), value("number", []), value("whole", [1, 1, 2]),
         value("rest", [1, 1, 0]), value("hollow", [0, 2, 2]), value("ends", [2, 2, 1, 1, 2])],
        [tensor("everywhere", [2, 3], BOOL, raw=b"\0" * 6), int64s("repeats", [2] * 5), int64s("pads", [1, 1]),
         int64s("size", [1]), int64s("parts", [2, 0]), tensor("nothing", [0, 1, 2], raw=b""),
         int64s("around", [0, 0, 0, 0, 1, 0]), int64s("last", [-1]), int64s("before", [-33]), int64s("second", [1]),
         int64s("zero", [0]), int64s("two", [2])])
    npy("long", [2, 32, 1, 1, 2], [float(i) for i in range(128)])
    for name, shape in (("row", [3]), ("other", [3]), ("deep", [1, 1, 2, 1, 1]), ("deeper", [1, 1, 2]), ("one", [1, 1])):
        npy(name, shape, [float(i + 1) for i in range(max(shape))])
    npy("value", [], [3.0])
elif kind == "bodies":
    # The body of CenterCropPad depends on a shape that is GroupNormalization's.
    save([node("GroupNormalization", ["x", "one", "one"], ["n"], num_groups=1), node("CenterCropPad", ["n", "size"], ["y"], axes=[2])],
         [value("x", [1, 1, 3])], [value("y", [1, 1, 2])], [tensor("one", [1], floats=[1.0]), int64s("size", [2])], opset=21)
    npy("x", [1, 1, 3], [1.0, 2.0, 3.0])
elif kind == "types":
    # The standard gives both one type.
    save([node("Less", ["x", "n"], ["y"])], [X, value("n", ["batch", 3], INT32)], [value("y", ["batch", 3], BOOL)])
elif kind == "heads":
    # Keys are wider than the query.
    save([node("Attention", ["x", "k", "x"], ["y"], q_num_heads=1, kv_num_heads=1)],
         [value("x", [1, 2, 4]), value("k", [1, 2, 8])], [value("y", [1, 2, 4])], opset=23)
    npy("x", [1, 2, 4], [0.0] * 8)
    npy("k", [1, 2, 8], [0.0] * 16)
elif kind == "unknown":
    save([node("Unique", ["x"], ["u"]), node("Sqrt", ["u"], ["y"])], [X], [value("y", ["n"])])
elif kind == "large":
    # Integers that a double would round.
    most, odd = 2**63 - 1, 2**53 + 1
    shape = [1, 4]
    npy("i", shape, [1, -5, most - 1, odd - 1], "<i8")
    save(
        [node("Min", ["i", "most"], ["min"]), node("Less", ["i", "most"], ["less"]), node("Cast", ["less"], ["below"], to=INT64),
         node("Add", ["i", "odd"], ["sum"]), node("Clip", ["i", "", "odd"], ["clip"]), node("Pad", ["i", "pads", "odd"], ["pad"]),
         node("Div", ["i", "odd"], ["quotient"]), node("Range", ["odd", "end", "two"], ["range"]),
         node("MatMul", ["columns", "rows"], ["product"]), node("Mul", ["columns", "columns"], ["squares"])],
        [value("i", ["batch", 4], INT64)],
        [value(name, ["batch", 4], INT64) for name in ("min", "below", "sum", "clip", "quotient")]
        + [value("pad", ["batch", 5], INT64), value("range", ["r"], INT64), value("product", [2], INT64), value("squares", [2], INT64)],
        [tensor(name, [], INT64, raw=struct.pack("<q", v)) for name, v in (("most", most), ("odd", odd), ("end", odd + 3), ("two", 2))]
        + [int64s("pads", [0, 0, 0, 1]), int64s("columns", [1, most]),
           tensor("rows", [2, 2], INT64, raw=struct.pack("<4q", odd, 1, 0, 3))])
elif kind == "halves":
    # Rounded to 16 bits on the way, 65520 and more to infinity in f16.
    npy("x", [2, 3], [1e5, 1.0001, 65519, 65520, 3.14159, 1e-8])
    save(
        [node("Neg", ["x"], ["z"]), node("Cast", ["z"], ["h"], to=10), node("Cast", ["h"], ["w"], to=1), node("Neg", ["w"], ["f16"]),
         node("Cast", ["z"], ["b"], to=16), node("Cast", ["b"], ["v"], to=1), node("Neg", ["v"], ["bf16"])],
        [X], [value("f16", ["batch", 3]), value("bf16", ["batch", 3])])
elif kind == "strict":
    # 1/(x + 0) tells the zeros apart; the powers would be products.
    npy("x", [1, 3], [0.0, -0.0, 1.1])
    save(
        [node("Add", ["x", "zero"], ["sum"]), node("Reciprocal", ["sum"], ["y"]), node("Sub", ["x", "zero"], ["difference"]),
         node("Reciprocal", ["difference"], ["z"]), node("Pow", ["x", "three"], ["p"])],
        [X], [value("y", ["batch", 3]), value("z", ["batch", 3]), value("p", ["batch", 3])],
        [tensor("zero", [], floats=[0.0]), tensor("three", [], floats=[3.0])])
elif kind == "nan":
    nan, inf = float("nan"), float("inf")
    npy("x", [4, 3], [1.0, nan, 2.0, -inf, -inf, -inf, inf, 0.0, 1.0, 3.0, 2.0, 1.0])
    save(
        [node("ReduceMax", ["x", "axis"], ["max"], keepdims=0), node("ReduceMin", ["x", "axis"], ["min"], keepdims=0),
         node("ReduceMax", ["x", "first"], ["columns"], keepdims=0),
         node("Softmax", ["x"], ["softmax"], axis=-1), node("ArgMin", ["x"], ["argmin"], axis=1, keepdims=0),
         node("ArgMax", ["x"], ["argmax"], axis=1, keepdims=0), node("Hardmax", ["x"], ["hardmax"], axis=1)],
        [X], [value("hardmax", ["n", 3]), value("max", ["n"]), value("min", ["n"]), value("columns", [3]), value("softmax", ["n", 3]), value("argmin", ["n"], INT64), value("argmax", ["n"], INT64)],
        [int64s("axis", [1]), int64s("first", [0])])
elif kind == "attention":
    # Queries and keys whose product is -inf, one row each with and without.
    npy("q", [1, 1, 2, 2], [1e30, 1e30, 0.0, 0.0])
    npy("k", [1, 1, 2, 2], [-1e30] * 4)
    npy("v", [1, 1, 2, 2], [1.0, 2.0, 3.0, 4.0])
    save(
        [node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]), node("MatMul", ["q", "t"], ["s"]), node("Softmax", ["s"], ["p"], axis=-1),
         node("MatMul", ["p", "v"], ["plain"]), node("IsNaN", ["p"], ["n"]), node("Where", ["n", "none", "p"], ["g"]),
         node("MatMul", ["g", "v"], ["guarded"])],
        [value(name, ["batch", 1, 2, 2]) for name in "qkv"], [value("plain", ["batch", 1, 2, 2]), value("guarded", ["batch", 1, 2, 2])],
        [tensor("none", [], floats=[0.0])])
elif kind == "slopes":
    # What has no slope has none where the formula is 0 times infinity.
    npy("x", [1, 4], [0.0, 2.0, 0.0, 3.0])
    npy("e", [1, 4], [0.0, 0.0, 2.0, 1.0])
    npy("u", [1, 4], [0.0, 4.0, 0.0, 0.0])
    save(
        [node("Pow", ["x", "e"], ["y"]), node("ScatterElements", ["d", "places", "u"], ["z"], axis=1, reduction="mul")],
        [value(name, [1, 4]) for name in "xeu"], [value("y", [1, 4]), value("z", [1, 2])],
        [tensor("d", [1, 2], floats=[2.0, 3.0]), tensor("places", [1, 4], INT64, raw=struct.pack("<4q", 0, 0, 1, 1))])
elif kind == "angles":
    # torch.atan2(y, x), by a constant x, and of a constant y, and logaddexp of
    # y with 0, as exporters write them.
    nan, inf = float("nan"), float("inf")
    npy("y", [8], [0.0, -0.0, nan, 0.0, inf, 3.0, 0.0, 100.0])
    npy("x", [8], [-1.0, -1.0, 0.0, nan, inf, -4.0, 0.0, 1e-30])

    def angle(y, x, name):
        return [
            node("Div", [y, x], [name + "q"]), node("Atan", [name + "q"], [name + "a"]),
            node("Greater", [y, "zero"], [name + "up"]), node("Less", [x, "zero"], [name + "left"]),
            node("Add", [name + "a", "pi"], [name + "more"]), node("Sub", [name + "a", "pi"], [name + "less"]),
            node("Where", [name + "up", name + "more", name + "less"], [name + "turned"]),
            node("Where", [name + "left", name + "turned", name + "a"], [name])]

    known = {"zero": [0.0], "pi": [3.14159274], "two": [2.0], "one": [1.0],
             "width": [-1.0, -2.0, 0.0, 3.0, -4.0, -4.0, 0.0, 1.0]}
    save(
        [node("Constant", [], [name], value=tensor("", [8] if name == "width" else [], floats=numbers)) for name, numbers in known.items()] +
        angle("y", "x", "angle") + angle("y", "width", "by") + angle("two", "x", "of") +
        [node("Exp", ["y"], ["e"]), node("Add", ["e", "one"], ["sum"]), node("Log", ["sum"], ["soft"])],
        [value("y", [8]), value("x", [8])], [value(name, [8]) for name in ("angle", "by", "of", "soft")])
elif kind == "old":
    # Of opset 10; outputs without a shape.
    outputs = [field(1, name) + field(2, field(1, field(1, FLOAT)))
               for name in ("hard", "padded", "resized", "soft")]
    save(
        [
            node("Hardmax", ["x"], ["hard"], "hard", axis=0),
            node("Pad", ["x"], ["padded"], "pad", pads=[0, 1, 0, 0], value=7.0),
            node("Resize", ["x", "scales"], ["resized"], "resize", mode="linear"),
            node("Softmax", ["nothing"], ["soft"], "soft", axis=1),
        ],
        [X],
        outputs,
        [tensor("scales", [2], raw=floats(2, 1.0)), tensor("nothing", [2, 3, 0], raw=b"")],
        opset=10,
    )
