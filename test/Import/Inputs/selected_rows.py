# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Models that pick rows out by a mask, and inputs: selected_rows.py FOLDER KIND.

import os
import struct
import sys

from onnxfile import *


def rows(last, more=[], outputs=[value("y", [4, 2])], initializers=[]):
    """x[mask] as `picked`, of rows with a positive sum, by `index`."""
    return graph(
        [node("ReduceSum", ["x", "axis"], ["sums"], "sums", keepdims=0),
         node("Greater", ["sums", "nothing"], ["mask"], "mask"),
         node("NonZero", ["mask"], ["places"], "places"),
         node("Transpose", ["places"], ["index"], "index"),
         node("GatherND", ["x", "index"], ["picked"], "picked"),
         node("Mul", ["picked", "ten"], ["tens"], "tens")] + last,
        [value("x", [4, 2])] + more, outputs,
        [int64s("axis", [1]), int64s("first", [0]),
         tensor("nothing", [], floats=[0.0]), tensor("ten", [], floats=[10.0]),
         tensor("base", [4, 2], floats=[1.0] * 8)] + initializers)


def put(data, **how):
    return node("ScatterND", [data, "index", "tens"], ["y"], "put", **how)


# Of pairs of rows, of which one at most is picked.
pairs = [node("TopK", ["x", "k"], ["best", "which"], "best", axis=1),
         node("Equal", ["which", "zero"], ["mask"], "mask"),
         node("NonZero", ["mask"], ["places"], "places"),
         node("Slice", ["places", "zeros", "ones", "zeros"], ["line"], "line"),
         node("Transpose", ["line"], ["index"], "index"),
         node("GatherND", ["x", "index"], ["picked"], "picked")]
kinds = {
    "replace": rows([put("base")]),
    "add": rows([put("base", reduction="add")]),
    # y[index] += …: what is read is what is written.
    "inplace": rows([node("GatherND", ["base", "index"], ["old"], "old"),
                     node("Add", ["old", "tens"], ["new"], "new"),
                     node("ScatterND", ["base", "index", "new"], ["y"], "put")]),
    "mean": rows([node("ReduceMean", ["tens"], ["y"], "mean", keepdims=0)], outputs=[value("y", [])]),
    "sums": rows([node("ReduceSum", ["tens", "first"], ["y"], "total", keepdims=0)], outputs=[value("y", [2])]),
    # As many as there are is a number, too.
    "count": rows([node("Cast", ["mask"], ["ones"], "ones", to=FLOAT),
                   node("ReduceSum", ["ones"], ["many"], "many", keepdims=0),
                   put("base"), node("Identity", ["many"], ["count"], "count")],
                  outputs=[value("y", [4, 2]), value("count", [])]),
    "once": graph(pairs + [node("ScatterND", ["base", "index", "picked"], ["y"], "put")],
                  [value("x", [4, 2])], [value("y", [4, 2])],
                  [int64s("k", [1]), int64s("zero", [0]), int64s("zeros", [0]), int64s("ones", [1]),
                   tensor("base", [4, 2], floats=[1.0] * 8)]),
    # Places of TopK that are compared with data may be chosen twice.
    "paired": graph([node("TopK", ["x", "k"], ["best", "which"], "best", axis=1),
                     node("Equal", ["which", "given"], ["mask"], "mask"),
                     node("NonZero", ["mask"], ["places"], "places"),
                     node("Slice", ["places", "zeros", "ones", "zeros"], ["line"], "line"),
                     node("Transpose", ["line"], ["index"], "index"),
                     node("GatherND", ["x", "index"], ["picked"], "picked"),
                     node("ScatterND", ["base", "index", "picked"], ["y"], "put")],
                    [value("x", [4, 2]), value("given", [4, 2], INT64)], [value("y", [4, 2])],
                    [int64s("k", [2]), int64s("zeros", [0]), int64s("ones", [1]),
                     tensor("base", [4, 2], floats=[1.0] * 8)]),
    # Not of each row alone; given away; a number of rows that is no shape; rows
    # of which several would go to one place.
    "sorted": rows([node("CumSum", ["tens", "first"], ["run"], "run"),
                    node("ScatterND", ["base", "index", "run"], ["y"], "put")]),
    "given": rows([node("Identity", ["tens"], ["y"], "end")], outputs=[value("y", ["n", 2])]),
    "number": rows([node("Shape", ["tens"], ["shape"], "shape"), node("Cast", ["shape"], ["n"], "n", to=FLOAT),
                    node("Mul", ["base", "n"], ["y"], "y")]),
    "twice": graph([node("Greater", ["x", "zero"], ["mask"], "mask"),
                    node("NonZero", ["mask"], ["places"], "places"),
                    node("Slice", ["places", "zeros", "ones", "zeros"], ["line"], "line"),
                    node("Transpose", ["line"], ["index"], "index"),
                    node("GatherND", ["x", "index"], ["picked"], "picked"),
                    node("ScatterND", ["base", "index", "picked"], ["y"], "put")],
                   [value("x", [4, 2])], [value("y", [4, 2])],
                   [tensor("zero", [], floats=[0.0]), int64s("zeros", [0]), int64s("ones", [1]),
                    tensor("base", [4, 2], floats=[1.0] * 8)]),
}
folder, kind = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
write(model(kinds[kind]), os.path.join(folder, "m.onnx"))
header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2), }".ljust(117) + "\n"
write(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode() +
      struct.pack("<8f", 1, 2, -3, 1, 4, -1, 2, -5), os.path.join(folder, "x.npy"))
