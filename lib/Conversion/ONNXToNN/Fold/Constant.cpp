// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of ONNX ops that make tensors of nothing but their attributes,
// shapes and bounds.

#include "Evaluate.h"

#include "mlir/IR/Builders.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {
namespace {

HostOutputs constant(onnx::NodeOp node, HostInputs) {
  Builder b(node.getContext());
  SmallVector<int64_t> ints;
  if (auto value =
          dyn_cast_or_null<DenseElementsAttr>(node.getNodeAttr("value")))
    return one(HostTensor::fromAttr(value));
  if (node.getNodeAttr("value_int"))
    return one(
        HostTensor::ints({}, {node.getInt("value_int", 0)}, b.getI64Type()));
  if (node.getInts("value_ints", ints))
    return one(HostTensor::ints({static_cast<int64_t>(ints.size())}, ints,
                                b.getI64Type()));
  Scalar scalar;
  if (node.getNodeAttr("value_float")) {
    scalar.f = node.getFloat("value_float", 0);
    return one(HostTensor::splat({}, b.getF32Type(), scalar));
  }
  auto floats =
      dyn_cast_or_null<DenseF32ArrayAttr>(node.getNodeAttr("value_floats"));
  if (!floats)
    return std::nullopt;
  std::vector<Scalar> values;
  for (float value : floats.asArrayRef()) {
    scalar.f = value;
    values.push_back(scalar);
  }
  return one(HostTensor::dense({floats.size()}, b.getF32Type(), values));
}

HostOutputs constantOfShape(onnx::NodeOp node, HostInputs inputs) {
  auto shape = shortInts(inputAt(inputs, 0));
  if (!shape || llvm::any_of(*shape, [](int64_t dim) { return dim < 0; }))
    return std::nullopt;
  if (auto value =
          dyn_cast_or_null<DenseElementsAttr>(node.getNodeAttr("value"))) {
    HostTensor filler = HostTensor::fromAttr(value);
    if (filler.getNumElements() != 1)
      return std::nullopt;
    return one(
        HostTensor::splat(*shape, filler.getElementType(), filler.front()));
  }
  Scalar zero;
  zero.f = 0;
  return one(
      HostTensor::splat(*shape, Float32Type::get(node.getContext()), zero));
}

/// How many integers lie from `start` on before `limit`.
uint64_t countSteps(int64_t start, int64_t limit, int64_t delta) {
  bool up = delta > 0;
  if (start == limit || (limit > start) != up)
    return 0;
  auto from = static_cast<uint64_t>(start), to = static_cast<uint64_t>(limit),
       by = static_cast<uint64_t>(delta);
  uint64_t span = up ? to - from : from - to, step = up ? by : 0 - by;
  return span / step + (span % step != 0 ? 1 : 0);
}

HostOutputs range(onnx::NodeOp, HostInputs inputs) {
  if (!hasInputs(inputs, 3) ||
      llvm::any_of(inputs, [&](const HostTensor *bound) {
        return bound->getNumElements() != 1 ||
               bound->getElementType() != inputs[0]->getElementType();
      }))
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  Scalar start = inputs[0]->front(), limit = inputs[1]->front(),
         delta = inputs[2]->front();
  if (toDouble(delta, type) == 0)
    return std::nullopt;
  constexpr uint64_t most = 1 << 24;
  uint64_t count = 0;
  if (isa<FloatType>(type)) {
    double steps = std::max(0.0, std::ceil((limit.f - start.f) / delta.f));
    count = steps <= most ? static_cast<uint64_t>(steps) : most + 1;
  } else {
    count = countSteps(start.i, limit.i, delta.i);
  }
  if (count > most)
    return std::nullopt;
  std::vector<Scalar> values(count);
  for (size_t i = 0; i < values.size(); ++i) {
    if (isa<FloatType>(type))
      values[i].f = roundTo(start.f + static_cast<double>(i) * delta.f, type);
    else
      values[i].i = wrapTo(static_cast<int64_t>(static_cast<uint64_t>(start.i) +
                                                i * uint64_t(delta.i)),
                           type);
  }
  int64_t size = static_cast<int64_t>(values.size());
  return one(HostTensor::dense({size}, type, std::move(values)));
}

} // namespace

void addConstantEvaluators(llvm::StringMap<Evaluator> &table) {
  table["Constant"] = constant;
  table["ConstantOfShape"] = constantOfShape;
  table["Range"] = range;
}

} // namespace shardonnx
