# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Models with loops, and an input for each: loops.py FOLDER KIND.

import os
import sys

from onnxfile import *


def whole(name, number):
    return tensor(name, [], INT64, raw=number.to_bytes(8, "little"))


def yes(name):
    return tensor(name, [], BOOL, raw=b"\1")


def scan(inputs, outputs, body, scanned=1, **lists):
    return node("Scan", inputs, outputs, "scan", body=body, num_scan_inputs=scanned, **lists)


def loop(inputs, outputs, body):
    return node("Loop", inputs, outputs, "loop", body=body)


def body(nodes, inputs, outputs, initializers=[]):
    return graph(nodes, inputs, outputs, initializers)


def count_to(last, nodes, more=[], initializers=[], ends="goes_on"):
    """A body that adds the number of the turn to what it carries."""
    return body([node("Cast", ["i"], ["f"], to=FLOAT)] + nodes + [node("Add", ["a", "f"], [last], "add")],
                [value("i", [], INT64), value("c", [], BOOL), value("a", [2])],
                [value(ends, [], BOOL), value(last, [2])] + more, initializers)


same = node("Identity", ["c"], ["goes_on"])
# Sums from the front, and what each turn has seen.
sums = body([node("Add", ["s", "t"], ["n"], "add"), node("Identity", ["n"], ["seen"])],
            [value("s", [2]), value("t", [2])], [value("n", [2]), value("seen", [2])])
def rows(name):
    """A sequence of tensors."""
    return field(1, name) + field(2, field(4, field(1, field(1, field(1, FLOAT) + field(2, field(1, field(1, 2)))))))


X, Y = [value("x", ["T", 2])], [value("y", [2])]
zeros = tensor("zero", [2], floats=[0.0, 0.0])
turns = [node("Shape", ["x"], ["dims"]), node("Gather", ["dims", "first"], ["turns"])]
kinds = {
    "scan": graph([scan(["zero", "x"], ["y", "z"], sums)], X, Y + [value("z", ["T", 2])], [zeros]),
    # Columns from the last to the first; the results, too, lie from the last to the first.
    "backward": graph([scan(["zero", "x"], ["y", "z"], sums, scan_input_axes=[1], scan_input_directions=[1],
                            scan_output_axes=[-1], scan_output_directions=[1])],
                      [value("x", [2, "T"])], Y + [value("z", [2, "T"])], [zeros]),
    "loop": graph(turns + [loop(["turns", "true", "zero"], ["a", "z"],
                                count_to("n", [same, node("Mul", ["f", "f"], ["square"])], [value("square", [])])),
                           node("Add", ["a", "x"], ["y"], "end")],
                  X, [value("y", ["T", 2]), value("z", ["T"])], [zeros, whole("first", 0), yes("true")]),
    # No condition before the first turn; one from around the loop after it.
    "outside": graph(turns + [loop(["turns", "", "zero"], ["a"], count_to("n", [], ends="true")),
                              node("Add", ["a", "x"], ["y"], "end")],
                     X, [value("y", ["T", 2])], [zeros, whole("first", 0), yes("true")]),
    # A loop in a loop, whose turns what is around it says.
    "nested": graph(turns + [loop(["turns", "true", "zero"], ["a"], body(
        [same, loop(["turns", "c", "b"], ["n"], count_to("m", [same]))],
        [value("j", [], INT64), value("c", [], BOOL), value("b", [2])], [value("goes_on", [], BOOL), value("n", [2])])),
        node("Add", ["a", "x"], ["y"], "end")], X, [value("y", ["T", 2])], [zeros, whole("first", 0), yes("true")]),
    # Ends by what it computes.
    "until": graph(turns + [loop(["turns", "true", "zero"], ["a"], count_to("n", [
        node("ReduceSum", ["a"], ["sum"], keepdims=0), node("Less", ["sum", "most"], ["goes_on"])])),
        node("Add", ["a", "x"], ["y"], "end")],
        X, [value("y", ["T", 2])], [zeros, whole("first", 0), yes("true"), tensor("most", [], floats=[3.0])]),
    # A number that data says.
    "data": graph([node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Cast", ["sum"], ["turns"], to=INT64),
                   loop(["turns", "true", "zero"], ["a"], count_to("n", [same])), node("Add", ["a", "x"], ["y"], "end")],
                  X, [value("y", ["T", 2])], [zeros, yes("true")]),
    # A list that grows, as torch.jit.script has it, and its first element.
    "list": graph([node("SequenceEmpty", [], ["none"])] + turns + [
        loop(["turns", "true", "none"], ["list"], body(
            [same, node("Gather", ["x", "i"], ["row"], axis=0), node("SequenceInsert", ["l", "row", "first"], ["m"])],
            [value("i", [], INT64), value("c", [], BOOL), rows("l")], [value("goes_on", [], BOOL), rows("m")])),
        node("ConcatFromSequence", ["list"], ["z"], axis=0, new_axis=1),
        node("SequenceAt", ["list", "first"], ["y"])], X, Y + [value("z", ["T", 2])], [whole("first", 0), yes("true")]),
    # Axes and sizes are attributes in older opsets.
    "old": graph([scan(["zero", "x"], ["y", "z"], sums)], X, Y + [value("z", ["T", 2])], [zeros]),
    # Another node gives its result the loop's name.
    "twice": graph([node("Relu", ["x"], ["a"])] + turns + [
        loop(["turns", "true", "zero"], ["a"], count_to("n", [same])), node("Add", ["a", "x"], ["y"], "end")],
        X, [value("y", ["T", 2])], [zeros, whole("first", 0), yes("true")]),
    "weights": graph([scan(["zero", "x"], ["y", "z"], body(
        [node("Mul", ["t", "w"], ["m"]), node("Add", ["s", "m"], ["n"], "add"), node("Identity", ["n"], ["seen"])],
        [value("s", [2]), value("t", [2])], [value("n", [2]), value("seen", [2])],
        [tensor("w", [2], floats=[1.0, 2.0])]))], X, Y + [value("z", ["T", 2])], [zeros]),
    "long": graph([node("Add", ["many", "many"], ["turns"]), loop(["turns", "true", "zero"], ["a"], count_to("n", [same])),
                   node("Add", ["a", "x"], ["y"], "end")],
                  X, [value("y", ["T", 2])], [zeros, whole("many", 10 ** 12), yes("true")]),
}

folder, kind = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
write(model(kinds[kind], opset=11 if kind == "old" else 18), os.path.join(folder, "m.onnx"))
shape = (2, 3) if kind == "backward" else (3, 2)
header = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % (shape,)
header = header.ljust(117) + "\n"
write(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode() + floats(6, 1.0),
      os.path.join(folder, "x.npy"))
