# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Models that pick rows out by a mask, and inputs: selected_rows.py FOLDER KIND.

import os
import struct
import sys

from onnxfile import *


def rows(last, more=[], outputs=[value("y", [4, 2])], initializers=[], size=4):
    """x[mask] as `picked`, of rows with a positive sum, by `index`."""
    return graph(
        [node("ReduceSum", ["x", "axis"], ["sums"], "sums", keepdims=0),
         node("Greater", ["sums", "nothing"], ["mask"], "mask"),
         node("NonZero", ["mask"], ["places"], "places"),
         node("Transpose", ["places"], ["index"], "index"),
         node("GatherND", ["x", "index"], ["picked"], "picked"),
         node("Mul", ["picked", "ten"], ["tens"], "tens")] + last,
        [value("x", [size, 2])] + more, outputs,
        [int64s("axis", [1]), int64s("first", [0]),
         tensor("nothing", [], floats=[0.0]), tensor("ten", [], floats=[10.0]),
         tensor("base", [4, 2], floats=[1.0] * 8)] + initializers)


def number(name, value):
    return tensor(name, [], INT64, ints=[value])


def put(data, **how):
    return node("ScatterND", [data, "index", "tens"], ["y"], "put", **how)


# Of x - shift the second row is zeros, from whose root there is no slope.
shift = tensor("shift", [2], floats=[-3.0, 1.0])


def steep(last, more=[], initializers=[], inputs=[]):
    """(x - shift)[mask] as `moved`, reduced to y."""
    return rows([node("Sub", ["x", "shift"], ["all"], "all"), node("GatherND", ["all", "index"], ["moved"], "moved")] +
                more + [node("ReduceMean", [last], ["y"], "mean", keepdims=0)],
                inputs, [value("y", [])], [shift] + initializers)


def total(last, initializers=[], **how):
    """Sums `own` to y."""
    return rows(last + [node("ReduceSum", ["own"], ["y"], "total", keepdims=0)], outputs=[value("y", [])],
                initializers=[int64s("last", [-1]), int64s("two", [2]), int64s("none", [0]), int64s("width", [1])] +
                initializers, **how)


# How many rows there are, and their numbers.
many = [node("Shape", ["tens"], ["many"], end=1)]
numbers = many + [node("Squeeze", ["many"], ["n"]), node("Range", ["from", "n", "by"], ["numbers"]),
                  node("Unsqueeze", ["numbers", "last"], ["column"])]
counting = [number("from", 0), number("by", 1)]
inner = [node("Greater", ["tens", "nothing"], ["large"]), node("NonZero", ["large"], ["inner"])]

# A size that each of many nodes reads three times.
size, doubled = "rows", [node("Shape", ["x"], ["rows"], end=1)]
for step in range(14):
    doubled += [node("Equal", [size, size], [f"same{step}"]),
                node("Where", [f"same{step}", size, size], [f"size{step}"])]
    size = f"size{step}"

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
    # One number for each slot may be twice there, one for all is once.
    "slots": graph([node("TopK", ["x", "two"], ["best", "which"], "best", axis=1)] +
                   [node("Equal", ["which", "both"], ["mask"], "mask")] + pairs[2:] +
                   [node("ScatterND", ["base", "index", "picked"], ["y"], "put")],
                   [value("x", [4, 2])], [value("y", [4, 2])],
                   [int64s("two", [2]), int64s("both", [0, 1]), int64s("zeros", [0]), int64s("ones", [1]),
                    tensor("base", [4, 2], floats=[1.0] * 8)]),
    "slot": graph([node("TopK", ["x", "two"], ["best", "which"], "best", axis=1)] + pairs[1:] +
                  [node("ScatterND", ["base", "index", "picked"], ["y"], "put")],
                  [value("x", [4, 2])], [value("y", [4, 2])],
                  [int64s("two", [2]), int64s("zero", [0]), int64s("zeros", [0]), int64s("ones", [1]),
                   tensor("base", [4, 2], floats=[1.0] * 8)]),
    # Numbers of selected rows along another axis.
    "diagonal": total(numbers + [node("GatherElements", ["tens", "column"], ["own"], "own", axis=1)], counting),
    "corners": total(numbers + [node("Concat", ["column", "column"], ["both"], axis=1),
                                node("GatherND", ["tens", "both"], ["own"], "own")], counting),
    "written": total(numbers + [node("ReduceMean", ["tens", "last"], ["means"]),
                                node("ScatterElements", ["tens", "column", "means"], ["own"], "own", axis=1)], counting),
    # Columns of a mask of selected rows as if they were these.
    "columns": total(inner + [node("Slice", ["inner", "width", "two", "none"], ["line"]),
                              node("Squeeze", ["line", "none"], ["c"]), node("Gather", ["tens", "c"], ["own"], "own")]),
    "swapped": total(inner + [node("Transpose", ["inner"], ["pairs"]), node("Gather", ["pairs", "turned"], ["cr"], axis=1),
                              node("GatherND", ["tens", "cr"], ["own"], "own")], [int64s("turned", [1, 0])]),
    # As many as another mask selects; every second; as many columns.
    "others": total([node("Less", ["sums", "nothing"], ["less"]), node("NonZero", ["less"], ["spots"]),
                     node("Transpose", ["spots"], ["at"]), node("GatherND", ["x", "at"], ["negative"]),
                     node("Shape", ["negative"], ["many"], end=1),
                     node("Slice", ["tens", "none", "many", "none"], ["own"], "own")]),
    "second": total(many + [node("Slice", ["tens", "none", "many", "none", "two"], ["own"], "own")]),
    "wide": total(many + [node("Slice", ["tens", "none", "many", "width"], ["own"], "own")]),
    "fixed": total([node("Reshape", ["tens", "four"], ["own"], "own")], [int64s("four", [4, -1])]),
    # A sum of what is not zero is not how many there are.
    "summed": graph([node("NonZero", ["i"], ["places"], "places"), node("Transpose", ["places"], ["index"]),
                     node("GatherND", ["x", "index"], ["picked"]), node("Cast", ["i"], ["ones"], to=INT64),
                     node("ReduceSum", ["ones"], ["many"], keepdims=1), node("Expand", ["one", "many"], ["wide"], "wide"),
                     node("ReduceSum", ["picked"], ["a"], keepdims=0), node("ReduceSum", ["wide"], ["b"], keepdims=0),
                     node("Add", ["a", "b"], ["y"])], [value("x", [4, 2]), value("i", [4], INT64)], [value("y", [])],
                    [tensor("one", [1], floats=[1.0])]),
    # A mask of columns, as large as one of rows.
    "across": rows([node("Unsqueeze", ["mask", "first"], ["line"]), node("Expand", ["line", "shape"], ["chosen"]),
                    node("NonZero", ["chosen"], ["spots"]), node("Transpose", ["spots"], ["at"]),
                    node("Reshape", ["tens", "last"], ["updates"]),
                    node("ScatterND", ["x", "at", "updates"], ["y"], "put")],
                   outputs=[value("y", [2, 2])], initializers=[int64s("last", [-1]), int64s("shape", [2, 2])], size=2),
    # Without elements; sizes that are read often; a table of fewer rows.
    "empty": total([node("Slice", ["tens", "none", "none", "width"], ["no"]),
                    node("ReduceMean", ["no", "none"], ["mean"], keepdims=0),
                    node("ReduceSum", ["mean"], ["nil"], keepdims=0), node("ReduceMean", ["tens"], ["m"], keepdims=0),
                    node("Add", ["m", "nil"], ["own"])]),
    "doubled": total(doubled + [node("ConstantOfShape", [size], ["zeros"]), node("ReduceSum", ["zeros"], ["nil"], keepdims=0),
                                node("ReduceMean", ["tens"], ["m"], keepdims=0), node("Add", ["m", "nil"], ["own"])]),
    "short": total([node("GatherND", ["short", "index"], ["part"]), node("Mul", ["part", "tens"], ["own"])],
                   [tensor("short", [3, 2], floats=[0.0, 1.0, 2.0, 3.0, 4.0, 5.0])]),
    # What is steep, of places that are not selected.
    "root": steep("root", [node("Mul", ["moved", "moved"], ["square"]), node("Sqrt", ["square"], ["root"])]),
    "share": steep("share", [node("Div", ["one", "moved"], ["share"])], [tensor("one", [], floats=[1.0])]),
    "power": steep("power", [node("Pow", ["moved", "two"], ["square"]), node("Pow", ["square", "half"], ["power"])],
                   [tensor("two", [], floats=[2.0]), tensor("half", [], floats=[0.5])]),
    # Targets that are no numbers there.
    "targets": steep("square", [node("GatherND", ["t", "index"], ["target"]),
                                node("Sub", ["moved", "target"], ["error"]),
                                node("Mul", ["error", "error"], ["square"])], inputs=[value("t", [4, 2])]),
    # Indices that are none there; each row's own element.
    "table": steep("product", [node("GatherND", ["i", "index"], ["which"]),
                               node("Gather", ["table", "which"], ["found"]),
                               node("Mul", ["found", "moved"], ["product"])],
                   [tensor("table", [2, 2], floats=[1.0, 2.0, 3.0, 4.0])], [value("i", [4], INT64)]),
    "elements": steep("own", [node("GatherND", ["i", "index"], ["which"]), node("Unsqueeze", ["which", "one"], ["column"]),
                              node("GatherElements", ["moved", "column"], ["own"], axis=1)],
                      [int64s("one", [1])], [value("i", [4], INT64)]),
    # Parts of each row, of equal sizes and of given ones.
    "parts": steep("product", [node("SplitToSequence", ["moved", "each"], ["halves"], axis=-1),
                               node("SequenceAt", ["halves", "first_half"], ["right"]),
                               node("SplitToSequence", ["right", "sizes"], ["pieces"], axis=1),
                               node("SequenceAt", ["pieces", "second"], ["product"])],
                   [number("first_half", 0), number("second", 1), number("each", 2), tensor("sizes", [2], INT64, ints=[1, 1])]),
    # Sums of rows by indices of their own.
    "pooled": steep("pooled", [node("GatherND", ["i", "index"], ["which"]), node("Unsqueeze", ["which", "one"], ["column"]),
                             node("ScatterND", ["table", "column", "moved"], ["pooled"], reduction="add")],
                    [int64s("one", [1]), tensor("table", [2, 2], floats=[1.0, 2.0, 3.0, 4.0])], [value("i", [4], INT64)]),
    "numbered": steep("own", [node("GatherND", ["i", "index"], ["which"]), node("Unsqueeze", ["which", "one"], ["column"]),
                              node("Shape", ["moved"], ["shape"], end=1), node("Squeeze", ["shape"], ["many"]),
                              node("Range", ["from", "many", "by"], ["numbers"]),
                              node("Unsqueeze", ["numbers", "one"], ["row"]),
                              node("Concat", ["row", "column"], ["both"], axis=-1),
                              node("GatherND", ["moved", "both"], ["own"])],
                      [int64s("one", [1]), number("from", 0), number("by", 1)], [value("i", [4], INT64)]),
    # A mask of the rows that another has selected.
    "nested": rows([node("Greater", ["tens", "some"], ["large"]), node("NonZero", ["large"], ["inner"], "inner"),
                    node("Transpose", ["inner"], ["inside"]), node("GatherND", ["tens", "inside"], ["kept"]),
                    node("ReduceMean", ["kept"], ["y"], "mean", keepdims=0)], outputs=[value("y", [])],
                   initializers=[tensor("some", [], floats=[15.0])]),
    "largest": rows([node("Neg", ["tens"], ["less"]), node("ReduceMax", ["less"], ["y"], "max", keepdims=0)],
                    outputs=[value("y", [])]),
    # y[mask] = token, as PyTorch's newer exporter writes it.
    "token": rows([node("Unsqueeze", ["mask", "last"], ["column"]), node("Expand", ["column", "shape"], ["chosen"]),
                   node("NonZero", ["chosen"], ["spots"]), node("Transpose", ["spots"], ["at"]),
                   node("Cast", ["mask"], ["ones"], to=INT64), node("ReduceSum", ["ones"], ["many"], keepdims=1),
                   node("Concat", ["many", "width"], ["sizes"], axis=0), node("Expand", ["token", "sizes"], ["wide"]),
                   node("Reshape", ["wide", "last"], ["updates"]),
                   node("ScatterND", ["x", "at", "updates"], ["y"], "put")],
                  initializers=[int64s("last", [-1]), int64s("shape", [4, 2]), int64s("width", [2]),
                                tensor("token", [2], floats=[7.0, 8.0])]),
    # x[x > 1.5] = x[x > 1.5] * 10, by a mask of elements.
    "assigned": graph([node("Greater", ["x", "some"], ["mask"]), node("NonZero", ["mask"], ["places"], "places"),
                       node("Transpose", ["places"], ["index"]), node("GatherND", ["x", "index"], ["picked"]),
                       node("Mul", ["picked", "ten"], ["tens"]), node("Reshape", ["mask", "last"], ["flags"]),
                       node("Cast", ["flags"], ["ones"], to=INT64), node("ReduceSum", ["ones"], ["many"], keepdims=1),
                       node("Expand", ["tens", "many"], ["wide"]), node("Reshape", ["wide", "last"], ["updates"]),
                       node("ScatterND", ["x", "index", "updates"], ["y"], "put")],
                      [value("x", [4, 2])], [value("y", [4, 2])],
                      [tensor("some", [], floats=[1.5]), tensor("ten", [], floats=[10.0]), int64s("last", [-1])]),
    # As many as there are is a number.
    "number": rows([node("Shape", ["tens"], ["shape"], "shape"), node("Cast", ["shape"], ["n"], "n", to=FLOAT),
                    node("Mul", ["base", "n"], ["y"], "y")]),
    # Numbers of selected rows are not those of places.
    "order": rows([node("Shape", ["tens"], ["shape"], end=1), node("Squeeze", ["shape"], ["many"]),
                   node("Range", ["from", "many", "by"], ["numbers"]), node("Cast", ["numbers"], ["weights"], "weights", to=FLOAT),
                   node("Unsqueeze", ["weights", "last"], ["column"]),
                   node("Mul", ["tens", "column"], ["product"], "product"),
                   node("ReduceMean", ["product"], ["y"], keepdims=0)], outputs=[value("y", [])],
                  initializers=[int64s("last", [-1]), number("from", 0), number("by", 1)]),
    # Not of each row alone; given away; rows of which several would go to one
    # place.
    "sorted": rows([node("CumSum", ["tens", "first"], ["run"], "run"),
                    node("ScatterND", ["base", "index", "run"], ["y"], "put")]),
    "given": rows([node("Identity", ["tens"], ["y"], "end")], outputs=[value("y", ["n", 2])]),
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


def save(name, kind, shape, form, *numbers):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    write(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode() + struct.pack(form, *numbers),
          os.path.join(folder, name + ".npy"))


nan = float("nan")
save("x", "<f4", "(4, 2)", "<8f", 1, 2, -3, 1, 4, -1, 2, -5)
save("t", "<f4", "(4, 2)", "<8f", 0, 0, nan, nan, 1, 1, nan, nan)
save("i", "<i8", "(4,)", "<4q", 1, -100, 0, 77)
