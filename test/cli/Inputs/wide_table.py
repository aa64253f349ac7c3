# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A model of a table, of which the data looks a few rows up, and a head, all of
# which is multiplied, 16 MiB each: of two ranks the one that owns the table
# touches both, the other one its head alone.
#
#   wide_table.py MODEL.onnx DATA.npz

import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

WORDS, WIDTH, LENGTH, SAMPLES = 65536, 64, 16, 8
model, data = sys.argv[1:]
random = numpy.random.default_rng(0)


def weights(name, *shape):
    return numpy_helper.from_array(
        random.standard_normal(shape, dtype=numpy.float32), name)


graph = helper.make_graph(
    [helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
     helper.make_node("MatMul", ["rows", "head"], ["logits"])],
    "table",
    [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", LENGTH])],
    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", LENGTH, WORDS])],
    [weights("table", WORDS, WIDTH), weights("head", WIDTH, WORDS)])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), model)
numpy.savez(data, input_ids=random.integers(0, 100, (SAMPLES, LENGTH)),
            labels=random.integers(0, 100, (SAMPLES, LENGTH)))
