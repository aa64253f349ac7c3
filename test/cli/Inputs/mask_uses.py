# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Graphs that use a padding mask outside of attention: the mean of words, and
# the place of a word that is counted by the mask.
#
#   mask_uses.py pooled|counted FILE.onnx

import os
import sys

sys.path.append(os.path.join(os.path.dirname(__file__), *[os.pardir] * 2, "Import", "Inputs"))
from onnxfile import *

POOLED = [
    node("Cast", ["attention_mask"], ["seen"], to=FLOAT),
    node("Unsqueeze", ["seen", "last"], ["column"]),
    node("Mul", ["words", "column"], ["kept"]),
]
COUNTED = [
    node("CumSum", ["attention_mask", "axis"], ["places"]),
    node("Gather", ["wpe", "places"], ["rows"]),
    node("Add", ["words", "rows"], ["kept"]),
]
ids = [value(name, [2, 4], INT64) for name in ("input_ids", "attention_mask")]
write(
    model(
        graph(
            [node("Gather", ["wte", "input_ids"], ["words"])]
            + (POOLED if sys.argv[1] == "pooled" else COUNTED)
            + [node("MatMul", ["kept", "head"], ["logits"])],
            ids,
            [value("logits", [2, 4, 6])],
            [tensor(name, dims, raw=floats(dims[0] * dims[1]))
             for name, dims in (("wte", [6, 3]), ("wpe", [5, 3]), ("head", [3, 6]))]
            + [int64s("last", [-1]), tensor("axis", [], INT64, ints=[1])],
        )
    ),
    sys.argv[2],
)
