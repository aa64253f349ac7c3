// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of LRN, and of Dropout that drops nothing.

#include "Evaluate.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {
namespace {

/// Local response normalisation across channels.
HostOutputs lrn(onnx::NodeOp node, HostInputs inputs) {
  int64_t size = node.getInt("size", 0);
  if (!hasInputs(inputs, 1) || !inputs[0]->isFloat() ||
      inputs[0]->getRank() < 2 || !countOf(inputs[0]->getShape()) || size < 1)
    return std::nullopt;
  double alpha = node.getFloat("alpha", 1e-4F),
         beta = node.getFloat("beta", 0.75), bias = node.getFloat("bias", 1);
  std::vector<Scalar> items = inputs[0]->flatten(), result(items);
  AxisView view(inputs[0]->getShape(), 1);
  Type type = inputs[0]->getElementType();
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t c = 0; c < view.length; ++c)
      for (int64_t i = 0; i < view.inner; ++i) {
        int64_t first = std::max<int64_t>(0, c - (size - 1) / 2),
                last = std::min(view.length - 1, c + size / 2);
        double squares = 0;
        for (int64_t n = first; n <= last; ++n)
          squares += items[view.at(o, n, i)].f * items[view.at(o, n, i)].f;
        Scalar &item = result[view.at(o, c, i)];
        item.f =
            roundTo(item.f / std::pow(bias + alpha / static_cast<double>(size) *
                                                 squares,
                                      beta),
                    type);
      }
  return one(HostTensor::dense(inputs[0]->getShape(), type, std::move(result)));
}

/// Where nothing is dropped; what is drawn is not known.
HostOutputs dropout(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1))
    return std::nullopt;
  const HostTensor *ratio = inputAt(inputs, 1), *training = inputAt(inputs, 2);
  bool drops =
      training && training->front().i && (!ratio || ratio->front().f != 0);
  if (drops)
    return std::nullopt;
  HostOutputs outputs = one(*inputs[0]);
  outputs->push_back(HostTensor::splat(
      inputs[0]->getShape(), IntegerType::get(node.getContext(), 1), ofInt(1)));
  return outputs;
}

} // namespace

void addNormEvaluators(llvm::StringMap<Evaluator> &table) {
  table["LRN"] = lrn;
  table["Dropout"] = dropout;
}

} // namespace shardonnx
