# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_onnx_adapter.py TOOL MODEL.onnx ADAPTER MERGED.onnx
#
# The graph that tools/onnx-adapter makes computes with the adapter's
# parameters what the merged model does, and without them what the model did.

import importlib.machinery
import importlib.util
import sys

import numpy
import onnx
import onnx.reference


def load(path):
    loader = importlib.machinery.SourceFileLoader("onnx_adapter", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("onnx_adapter", loader))
    loader.exec_module(module)
    return module


def logits(model, **feed):
    tokens = numpy.arange(64).reshape(2, 32) * 7 % 250
    return onnx.reference.ReferenceEvaluator(model).run(None, {"input_ids": tokens, **feed})[0]


def far(x, y):
    return float(abs(x - y).max() / abs(y).max())


tool, path, folder, merged = sys.argv[1:]
model = onnx.load(path)
before = logits(model)
parameters = load(tool).add_adapter(model, *load(tool).read_adapter(folder))
onnx.checker.check_model(model)
assert far(logits(model), before) == 0
wanted = logits(onnx.load(merged))
assert far(logits(model, **parameters), wanted) < 1e-5, far(logits(model, **parameters), wanted)
assert far(before, wanted) > 1e-3
