// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of pooling over any number of spatial axes.

#include "Window.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {
namespace {

/// A pooled tensor [samples, channels, spatial…] and the windows over it.
struct Pooling {
  Window window;
  int64_t planes = 0, inputSize = 0, outputSize = 0;
  HostTensor::Dims shape;
  std::vector<Scalar> items;
};

std::optional<Pooling> readPooling(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1) || inputs[0]->getRank() < 3 ||
      !countOf(inputs[0]->getShape()))
    return std::nullopt;
  ArrayRef<int64_t> x = inputs[0]->getShape();
  auto kernel = readPerAxis(node, "kernel_shape", x.size() - 2, 0, 1);
  if (!kernel)
    return std::nullopt;
  auto window = readWindow(node, x.drop_front(2), *kernel);
  if (!window)
    return std::nullopt;
  Pooling p;
  p.window = *window;
  p.shape = {x[0], x[1]};
  p.shape.append(window->output);
  auto results = countOf(p.shape), taps = countOf(window->kernel);
  if (!results || !taps || *results > (int64_t(1) << 30) / *taps)
    return std::nullopt;
  p.planes = x[0] * x[1];
  p.inputSize = *countOf(window->input);
  p.outputSize = *countOf(window->output);
  p.items = inputs[0]->flatten();
  return p;
}

/// Calls `body` for each output of each plane with its position and those in
/// the plane of the elements in its window.
void forEachWindow(
    const Pooling &p,
    llvm::function_ref<void(int64_t, int64_t, ArrayRef<int64_t>)> body) {
  if (p.outputSize == 0)
    return;
  HostTensor::Dims out(p.window.input.size(), 0), tap(out);
  SmallVector<int64_t> within;
  int64_t o = 0;
  do {
    within.clear();
    do
      if (auto position = p.window.position(out, tap))
        within.push_back(*position);
    while (advance(tap, p.window.kernel));
    for (int64_t plane = 0; plane < p.planes; ++plane)
      body(plane, plane * p.outputSize + o, within);
    ++o;
  } while (advance(out, p.window.output));
}

/// The taps of a window that lie in the input or its padding; with ceil_mode
/// the last window may reach beyond.
int64_t paddedTaps(const Window &w, int64_t output) {
  int64_t count = 1;
  for (size_t i = w.input.size(); i-- > 0; output /= w.output[i]) {
    int64_t inside = 0;
    for (int64_t tap = 0; tap < w.kernel[i]; ++tap)
      inside +=
          w.source(i, output % w.output[i], tap) < w.input[i] + w.after[i];
    count *= inside;
  }
  return count;
}

HostOutputs averagePool(onnx::NodeOp node, HostInputs inputs) {
  auto p = readPooling(node, inputs);
  if (!p || !inputs[0]->isFloat())
    return std::nullopt;
  bool countPadding = node.getInt("count_include_pad", 0) != 0;
  Type type = inputs[0]->getElementType();
  std::vector<Scalar> result(p->planes * p->outputSize);
  forEachWindow(*p, [&](int64_t plane, int64_t to, ArrayRef<int64_t> within) {
    double sum = 0;
    for (int64_t position : within)
      sum += p->items[plane * p->inputSize + position].f;
    int64_t count = countPadding ? paddedTaps(p->window, to % p->outputSize)
                                 : static_cast<int64_t>(within.size());
    result[to].f = roundTo(sum / static_cast<double>(count), type);
  });
  return one(HostTensor::dense(p->shape, type, std::move(result)));
}

HostOutputs lpPool(onnx::NodeOp node, HostInputs inputs) {
  auto p = readPooling(node, inputs);
  auto power = static_cast<double>(node.getInt("p", 2));
  if (!p || !inputs[0]->isFloat() || power < 1)
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  std::vector<Scalar> result(p->planes * p->outputSize);
  forEachWindow(*p, [&](int64_t plane, int64_t to, ArrayRef<int64_t> within) {
    double sum = 0;
    for (int64_t position : within)
      sum += std::pow(std::fabs(p->items[plane * p->inputSize + position].f),
                      power);
    result[to].f = roundTo(std::pow(sum, 1 / power), type);
  });
  return one(HostTensor::dense(p->shape, type, std::move(result)));
}

/// Position `row-major` in a plane, counted with its first axis fastest.
int64_t columnMajor(int64_t position, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> index(shape.size());
  for (size_t i = shape.size(); i-- > 0; position /= shape[i])
    index[i] = position % shape[i];
  int64_t result = 0;
  for (size_t i = shape.size(); i-- > 0;)
    result = result * shape[i] + index[i];
  return result;
}

/// The greatest elements, and where in the whole tensor they were.
HostOutputs maxPool(onnx::NodeOp node, HostInputs inputs) {
  auto p = readPooling(node, inputs);
  if (!p)
    return std::nullopt;
  bool byColumn = node.getInt("storage_order", 0) != 0;
  Type type = inputs[0]->getElementType();
  std::vector<Scalar> result(p->planes * p->outputSize);
  std::vector<Scalar> places(result.size());
  bool empty = false;
  forEachWindow(*p, [&](int64_t plane, int64_t to, ArrayRef<int64_t> within) {
    empty |= within.empty();
    if (within.empty())
      return;
    const Scalar *items = &p->items[plane * p->inputSize];
    int64_t best = within.front();
    for (int64_t position : within.drop_front())
      if (compareScalars(items[position], items[best], type) == 1)
        best = position;
    result[to] = items[best];
    places[to].i = plane * p->inputSize +
                   (byColumn ? columnMajor(best, p->window.input) : best);
  });
  if (empty)
    return std::nullopt;
  HostOutputs outputs =
      one(HostTensor::dense(p->shape, type, std::move(result)));
  outputs->push_back(HostTensor::dense(
      p->shape, IntegerType::get(node.getContext(), 64), std::move(places)));
  return outputs;
}

template <bool Greatest>
HostOutputs globalPool(onnx::NodeOp, HostInputs inputs) {
  if (!hasInputs(inputs, 1) || !inputs[0]->isFloat() ||
      inputs[0]->getRank() < 3 || !countOf(inputs[0]->getShape()))
    return std::nullopt;
  ArrayRef<int64_t> x = inputs[0]->getShape();
  int64_t planes = x[0] * x[1], size = *countOf(x.drop_front(2));
  if (size == 0)
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  std::vector<Scalar> items = inputs[0]->flatten(), result;
  for (int64_t plane = 0; plane < planes; ++plane) {
    Scalar value = items[plane * size];
    for (int64_t n = 1; n < size; ++n) {
      Scalar item = items[plane * size + n];
      value =
          Greatest ? maxScalar(value, item, type) : ofFloat(value.f + item.f);
    }
    if (!Greatest)
      value.f = roundTo(value.f / static_cast<double>(size), type);
    result.push_back(value);
  }
  HostTensor::Dims shape(x.size(), 1);
  std::copy_n(x.begin(), 2, shape.begin());
  return one(HostTensor::dense(shape, type, std::move(result)));
}

} // namespace

void addPoolEvaluators(llvm::StringMap<Evaluator> &table) {
  table["AveragePool"] = averagePool;
  table["LpPool"] = lpPool;
  table["MaxPool"] = maxPool;
  table["GlobalAveragePool"] = globalPool<false>;
  table["GlobalMaxPool"] = globalPool<true>;
}

} // namespace shardonnx
