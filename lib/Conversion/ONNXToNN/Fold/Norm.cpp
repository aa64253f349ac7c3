// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of normalisations whose schemas have no function body.

#include "Evaluate.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {
namespace {

HostTensor denseLike(const HostTensor &like, std::vector<Scalar> values) {
  return HostTensor::dense(like.getShape(), like.getElementType(),
                           std::move(values));
}

/// Whether all inputs are floats, the first of rank 2 or more, and the others
/// vectors with an element for each channel.
bool areChannelwise(HostInputs inputs, size_t count) {
  if (!hasInputs(inputs, count) || inputs[0]->getRank() < 2 ||
      !countOf(inputs[0]->getShape()))
    return false;
  return llvm::all_of(inputs.take_front(count).drop_front(),
                      [&](const HostTensor *tensor) {
                        return tensor->isFloat() && tensor->getRank() == 1 &&
                               tensor->getShape()[0] ==
                                   inputs[0]->getShape()[1];
                      }) &&
         inputs[0]->isFloat();
}

struct Moments {
  double mean = 0, variance = 0;
};

/// Of the elements that `pick` says.
Moments momentsOf(ArrayRef<Scalar> items, int64_t count,
                  llvm::function_ref<int64_t(int64_t)> pick) {
  Moments m;
  for (int64_t n = 0; n < count; ++n)
    m.mean += items[pick(n)].f;
  m.mean /= static_cast<double>(count);
  for (int64_t n = 0; n < count; ++n) {
    double centred = items[pick(n)].f - m.mean;
    m.variance += centred * centred;
  }
  m.variance /= static_cast<double>(count);
  return m;
}

/// In training mode also the running mean and variance, moved on.
HostOutputs batchNormalization(onnx::NodeOp node, HostInputs inputs) {
  if (!areChannelwise(inputs, 5) || node.getInt("spatial", 1) != 1)
    return std::nullopt;
  bool training = node.getInt("training_mode", 0) != 0;
  double epsilon = node.getFloat("epsilon", 1e-5F),
         momentum = node.getFloat("momentum", 0.9F);
  std::vector<Scalar> items = inputs[0]->flatten();
  std::vector<Scalar> scale = inputs[1]->flatten(), bias = inputs[2]->flatten(),
                      means = inputs[3]->flatten(),
                      variances = inputs[4]->flatten();
  AxisView view(inputs[0]->getShape(), 1);
  Type type = inputs[0]->getElementType(), stat = inputs[3]->getElementType();
  if (training && items.empty())
    return std::nullopt;
  for (int64_t c = 0; c < view.length; ++c) {
    Moments m{means[c].f, variances[c].f};
    auto pick = [&](int64_t n) {
      return view.at(n / view.inner, c, n % view.inner);
    };
    if (training) {
      m = momentsOf(items, view.outer * view.inner, pick);
      means[c].f =
          roundTo(means[c].f * momentum + m.mean * (1 - momentum), stat);
      variances[c].f = roundTo(
          variances[c].f * momentum + m.variance * (1 - momentum), stat);
    }
    double factor = scale[c].f / std::sqrt(m.variance + epsilon);
    for (int64_t n = 0; n < view.outer * view.inner; ++n) {
      Scalar &item = items[pick(n)];
      item.f = roundTo((item.f - m.mean) * factor + bias[c].f, type);
    }
  }
  HostOutputs outputs = one(denseLike(*inputs[0], std::move(items)));
  if (training) {
    outputs->push_back(denseLike(*inputs[3], std::move(means)));
    outputs->push_back(denseLike(*inputs[4], std::move(variances)));
  }
  return outputs;
}

HostOutputs instanceNormalization(onnx::NodeOp node, HostInputs inputs) {
  if (!areChannelwise(inputs, 3))
    return std::nullopt;
  double epsilon = node.getFloat("epsilon", 1e-5F);
  std::vector<Scalar> items = inputs[0]->flatten();
  std::vector<Scalar> scale = inputs[1]->flatten(), bias = inputs[2]->flatten();
  AxisView view(inputs[0]->getShape(), 1);
  Type type = inputs[0]->getElementType();
  if (items.empty())
    return one(*inputs[0]);
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t c = 0; c < view.length; ++c) {
      auto pick = [&](int64_t n) { return view.at(o, c, n); };
      Moments m = momentsOf(items, view.inner, pick);
      double factor = scale[c].f / std::sqrt(m.variance + epsilon);
      for (int64_t n = 0; n < view.inner; ++n) {
        Scalar &item = items[pick(n)];
        item.f = roundTo((item.f - m.mean) * factor + bias[c].f, type);
      }
    }
  return one(denseLike(*inputs[0], std::move(items)));
}

/// Unlike the schema's body, which loses digits where the mean is large, by
/// deviations from the mean. Mean and 1/deviation are in the type of `stash`.
HostOutputs layerNormalization(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 2) || !inputs[0]->isFloat() ||
      !countOf(inputs[0]->getShape()))
    return std::nullopt;
  auto axis = normalizeAxis(node.getInt("axis", -1), inputs[0]->getRank());
  Type stash = elementTypeOf(node.getInt("stash_type", 1), node.getContext());
  if (!axis || !isa_and_nonnull<FloatType>(stash))
    return std::nullopt;
  ArrayRef<int64_t> shape = inputs[0]->getShape();
  ArrayRef<int64_t> inner = shape.drop_front(*axis);
  const HostTensor *bias = inputAt(inputs, 2);
  for (const HostTensor *tensor : {inputs[1], bias})
    if (tensor &&
        broadcastShapes(tensor->getShape(), inner) != HostTensor::Dims(inner))
      return std::nullopt;
  int64_t size = *countOf(inner), rows = *countOf(shape.take_front(*axis));
  std::vector<Scalar> items = inputs[0]->flatten(), means, inverses;
  std::vector<Scalar> scale = inputs[1]->broadcast(inner).flatten();
  std::vector<Scalar> shift(size, ofFloat(0));
  if (bias)
    shift = bias->broadcast(inner).flatten();
  double epsilon = node.getFloat("epsilon", 1e-5F);
  Type type = inputs[0]->getElementType();
  for (int64_t row = 0; row < rows; ++row) {
    Moments m =
        momentsOf(items, size, [&](int64_t n) { return row * size + n; });
    double inverse = 1 / std::sqrt(m.variance + epsilon);
    means.push_back(ofFloat(roundTo(m.mean, stash)));
    inverses.push_back(ofFloat(roundTo(inverse, stash)));
    for (int64_t n = 0; n < size; ++n) {
      Scalar &item = items[row * size + n];
      double normal = roundTo((item.f - m.mean) * inverse, type);
      item.f = roundTo(normal * scale[n].f + shift[n].f, type);
    }
  }
  HostTensor::Dims kept(shape);
  std::fill(kept.begin() + *axis, kept.end(), 1);
  HostOutputs outputs = one(denseLike(*inputs[0], std::move(items)));
  outputs->push_back(HostTensor::dense(kept, stash, std::move(means)));
  outputs->push_back(HostTensor::dense(kept, stash, std::move(inverses)));
  return outputs;
}

/// A line whose norm is 0 becomes 0.
HostOutputs lpNormalization(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1) || !inputs[0]->isFloat() ||
      !countOf(inputs[0]->getShape()))
    return std::nullopt;
  auto axis = normalizeAxis(node.getInt("axis", -1), inputs[0]->getRank());
  int64_t p = node.getInt("p", 2);
  if (!axis || (p != 1 && p != 2))
    return std::nullopt;
  std::vector<Scalar> items = inputs[0]->flatten();
  AxisView view(inputs[0]->getShape(), *axis);
  Type type = inputs[0]->getElementType();
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      double norm = 0;
      for (int64_t n = 0; n < view.length; ++n) {
        double item = items[view.at(o, n, i)].f;
        norm += p == 1 ? std::fabs(item) : item * item;
      }
      norm = p == 1 ? norm : std::sqrt(norm);
      for (int64_t n = 0; n < view.length; ++n) {
        Scalar &item = items[view.at(o, n, i)];
        item.f = norm == 0 ? 0 : roundTo(item.f / norm, type);
      }
    }
  return one(denseLike(*inputs[0], std::move(items)));
}

/// Local response normalisation across channels.
HostOutputs lrn(onnx::NodeOp node, HostInputs inputs) {
  int64_t size = node.getInt("size", 0);
  if (!areChannelwise(inputs, 1) || size < 1)
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
  return one(denseLike(*inputs[0], std::move(result)));
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
  table["BatchNormalization"] = batchNormalization;
  table["InstanceNormalization"] = instanceNormalization;
  table["LayerNormalization"] = layerNormalization;
  table["LpNormalization"] = lpNormalization;
  table["LRN"] = lrn;
  table["Dropout"] = dropout;
}

} // namespace shardonnx
