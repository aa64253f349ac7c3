// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of ONNX ops that accumulate along an axis, and keep it.

#include "Evaluate.h"

using namespace mlir;

namespace shardonnx {
namespace {

using Combination = Scalar (*)(Scalar, Scalar, Type);

/// Running sums or products, of which the first is `Start`.
template <Combination Combine, int Start>
HostOutputs cumulate(onnx::NodeOp node, HostInputs inputs) {
  auto along = onlyInt(inputAt(inputs, 1));
  if (!hasInputs(inputs, 1) || !along)
    return std::nullopt;
  HostTensor::Dims full(inputs[0]->getShape());
  auto axis = normalizeAxis(*along, inputs[0]->getRank());
  if (!axis)
    return std::nullopt;
  // Only the axis itself must be stored.
  HostTensor::Dims shape(inputs[0]->compact().getShape());
  shape[*axis] = full[*axis];
  if (!countOf(shape))
    return std::nullopt;
  HostTensor data = inputs[0]->compact().broadcast(shape);
  bool exclusive = node.getInt("exclusive", 0),
       reverse = node.getInt("reverse", 0);
  Type type = data.getElementType();
  std::vector<Scalar> values = data.flatten();
  AxisView view(shape, *axis);
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      Scalar sum = scalarOf(Start, type);
      for (int64_t n = 0; n < view.length; ++n) {
        Scalar &item = values[view.at(o, reverse ? view.length - 1 - n : n, i)];
        Scalar before = sum;
        sum = Combine(sum, item, type);
        item = exclusive ? before : sum;
      }
    }
  return one(HostTensor::dense(shape, type, std::move(values)).broadcast(full));
}

} // namespace

void addScanEvaluators(llvm::StringMap<Evaluator> &table) {
  table["CumSum"] = cumulate<addScalars, 0>;
  table["CumProd"] = cumulate<multiplyScalars, 1>;
}

} // namespace shardonnx
