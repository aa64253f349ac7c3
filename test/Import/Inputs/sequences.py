# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A sequence of two tensors of which SequenceMap makes another, as torch.hstack
# does. With "several", beside another sequence and a tensor for all, with two
# results; with "places", elements are read at places that are data; with
# "longer", the other sequence has an element more.

import struct
import sys

from onnxfile import *

longer = "longer" in sys.argv
several = longer or "several" in sys.argv
outputs = [value("doubled", [2, 4]), value("sum", [2, 4])] if several else [value("doubled", [2, 4])]
body = graph(
    [node("Add", ["one", "one"], ["doubled"], "double")]
    + ([node("Add", ["one", "other"], ["both"]), node("Mul", ["both", "weight"], ["sum"])] if several else []),
    [value("one", [2, 4])] + ([value("other", [2, 4]), value("weight", [4])] if several else []),
    outputs,
)
inputs = ["pair", "others", "w"] if several else ["pair"]
nodes = [
    node("Neg", ["x"], ["n"]),
    node("SequenceConstruct", ["x", "n"], ["pair"]),
    node("SequenceConstruct", ["n", "x"] + ["x"] * longer, ["others"]),
    node("SequenceMap", inputs, ["mapped", "sums"][: len(outputs)], "map", body=body),
    node("SequenceAt", ["mapped", "place" if "places" in sys.argv else "one_"], ["y0"]),
]
nodes += [node("ConcatFromSequence", ["sums"], ["z"], axis=1), node("ReduceSum", ["z"], ["s"], keepdims=0),
          node("Add", ["y0", "s"], ["y"])] if several else [node("Mul", ["y0", "w"], ["y"])]
more = [value("place", [], INT64)] if "places" in sys.argv else []
write(model(graph(nodes, [value("x", [2, 4])] + more, [value("y", [2, 4])],
                  [tensor("w", [4], raw=floats(4)), tensor("one_", [], INT64, raw=struct.pack("<q", 1))])))
