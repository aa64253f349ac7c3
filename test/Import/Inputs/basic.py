# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A linear layer whose weight is raw data, whose bias is packed floats and whose
# shape is variable-length integers: the three ways to hold an initializer. A
# large constant is one, too.

from onnxfile import *

write(
    model(
        graph(
            [
                node("MatMul", ["x", "fc.weight"], ["y"], "/model/fc/MatMul"),
                node("Add", ["y", "fc.bias"], ["z"], "/model/fc/Add"),
                node("Constant", [], ["half"], "/model/act/Constant",
                     value=tensor("", [], floats=[0.5])),
                node("Mul", ["z", "half"], ["scaled"], "/model/act/Mul"),
                node("Constant", [], ["large"], value=tensor("", [16, 32], raw=floats(512))),
                node("ReduceMax", ["large"], ["max"], keepdims=0),
                node("Sub", ["scaled", "max"], ["h"]),
                node("Reshape", ["h", "shape"], ["out"], "reshape", allowzero=0),
                node("Clip", ["out", "", "half"], ["clipped"], "clip"),
            ],
            [value("x", ["batch", 16])],
            [value("clipped", ["batch", 4, 8])],
            [
                tensor("fc.weight", [16, 32], raw=floats(512)),
                tensor("fc.bias", [32], floats=[float(i) for i in range(32)]),
                tensor("shape", [3], INT64, ints=[-1, 4, 8]),
                tensor("inv_freq", [2], raw=floats(2)),
            ],
        )
    )
)
