// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of convolutions over any number of spatial axes, and the windows
// that they share with pooling.

#include "Window.h"

using namespace mlir;

namespace shardonnx {

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

std::optional<int64_t> Window::position(ArrayRef<int64_t> out,
                                        ArrayRef<int64_t> tap) const {
  int64_t result = 0;
  for (size_t i = 0; i < input.size(); ++i) {
    int64_t at = source(i, out[i], tap[i]);
    if (at < 0 || at >= input[i])
      return std::nullopt;
    result = result * input[i] + at;
  }
  return result;
}

std::optional<HostTensor::Dims> readPerAxis(onnx::NodeOp node, StringRef name,
                                            size_t rank, int64_t byDefault,
                                            int64_t least) {
  constexpr int64_t limit = int64_t(1) << 31;
  SmallVector<int64_t> values;
  if (!node.getInts(name, values))
    values.assign(rank, byDefault);
  if (values.size() != rank || llvm::any_of(values, [&](int64_t value) {
        return value < least || value > limit;
      }))
    return std::nullopt;
  return HostTensor::Dims(values);
}

/// Padding that gives ceil(input / stride) outputs; the odd one goes to the end
/// or, for SAME_LOWER, to the start.
static void padToSame(Window &w, bool lower) {
  for (size_t i = 0; i < w.input.size(); ++i) {
    w.output[i] = (w.input[i] + w.stride[i] - 1) / w.stride[i];
    int64_t span = (w.kernel[i] - 1) * w.dilation[i] + 1;
    int64_t total = std::max<int64_t>(0, (w.output[i] - 1) * w.stride[i] +
                                             span - w.input[i]);
    w.before[i] = lower ? (total + 1) / 2 : total / 2;
    w.after[i] = total - w.before[i];
  }
}

std::optional<Window> readWindow(onnx::NodeOp node, ArrayRef<int64_t> input,
                                 ArrayRef<int64_t> kernel) {
  size_t rank = input.size();
  auto stride = readPerAxis(node, "strides", rank, 1, 1),
       dilation = readPerAxis(node, "dilations", rank, 1, 1),
       pads = readPerAxis(node, "pads", 2 * rank, 0, 0);
  if (!stride || !dilation || !pads || kernel.size() != rank ||
      llvm::any_of(kernel, [](int64_t size) { return size < 1; }))
    return std::nullopt;
  Window w;
  w.input.assign(input.begin(), input.end());
  w.kernel.assign(kernel.begin(), kernel.end());
  w.stride = *stride;
  w.dilation = *dilation;
  w.output.assign(rank, 0);
  StringRef automatic = node.getString("auto_pad", "NOTSET");
  if (automatic == "VALID")
    pads->assign(2 * rank, 0);
  w.before.assign(pads->begin(), pads->begin() + rank);
  w.after.assign(pads->begin() + rank, pads->end());
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    padToSame(w, automatic == "SAME_LOWER");
    return w;
  }
  if (automatic != "NOTSET" && automatic != "VALID" && !automatic.empty())
    return std::nullopt;
  bool roundUp = node.getInt("ceil_mode", 0) != 0;
  for (size_t i = 0; i < rank; ++i) {
    int64_t span = (kernel[i] - 1) * w.dilation[i] + 1;
    int64_t room = input[i] + w.before[i] + w.after[i] - span;
    if (room < 0)
      return std::nullopt;
    w.output[i] = (room + (roundUp ? w.stride[i] - 1 : 0)) / w.stride[i] + 1;
    // A window that would start in the padding at the end is left out.
    if (roundUp && (w.output[i] - 1) * w.stride[i] >= input[i] + w.before[i])
      --w.output[i];
  }
  return w;
}

namespace {

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

/// Multiplications that one evaluation may take.
constexpr int64_t maxProducts = int64_t(1) << 30;

struct Convolution {
  int64_t samples, groups, inputs, outputs; // channels of one group
  Window window;
  int64_t inputSize, kernelSize, outputSize; // of all spatial axes
};

bool areConvolved(HostInputs inputs) {
  return hasInputs(inputs, 2) && inputs[0]->isFloat() &&
         inputs[0]->getRank() >= 3 &&
         inputs[1]->getRank() == inputs[0]->getRank() &&
         inputs[1]->getElementType() == inputs[0]->getElementType() &&
         countOf(inputs[0]->getShape()) && countOf(inputs[1]->getShape());
}

/// Checks what the window leaves open, and the size of it all.
bool complete(Convolution &c, const HostTensor *bias) {
  auto in = countOf(c.window.input), taps = countOf(c.window.kernel),
       out = countOf(c.window.output);
  if (!in || !taps || !out || *taps == 0)
    return false;
  c.inputSize = *in;
  c.kernelSize = *taps;
  c.outputSize = *out;
  auto results = countOf({c.samples, c.groups, c.outputs, *out});
  int64_t work = c.inputs * c.kernelSize;
  if (!results || (work > 0 && *results > maxProducts / work))
    return false;
  return !bias ||
         (bias->getRank() == 1 && bias->getShape()[0] == c.groups * c.outputs);
}

/// The result with its bias, rounded.
HostOutputs finish(const Convolution &c, MutableArrayRef<double> sums,
                   const HostTensor *bias, Type type) {
  HostTensor::Dims shape = {c.samples, c.groups * c.outputs};
  shape.append(c.window.output);
  std::vector<Scalar> values;
  values.reserve(sums.size());
  for (auto [n, sum] : llvm::enumerate(sums)) {
    int64_t channel =
        static_cast<int64_t>(n) / c.outputSize % (c.groups * c.outputs);
    double added = bias ? bias->at({channel}).f : 0;
    values.push_back(ofFloat(roundTo(sum + added, type)));
  }
  return one(HostTensor::dense(shape, type, std::move(values)));
}

/// Calls `body` with the positions in the input, the kernel and the output of
/// every tap that does not read the padding.
void forEachTap(const Window &w,
                llvm::function_ref<void(int64_t, int64_t, int64_t)> body) {
  size_t rank = w.input.size();
  HostTensor::Dims out(rank, 0), tap(rank, 0);
  int64_t o = 0;
  do {
    int64_t t = 0;
    do {
      if (auto position = w.position(out, tap))
        body(*position, t, o);
      ++t;
    } while (advance(tap, w.kernel));
    ++o;
  } while (advance(out, w.output));
}

HostOutputs conv(onnx::NodeOp node, HostInputs inputs) {
  if (!areConvolved(inputs))
    return std::nullopt;
  ArrayRef<int64_t> x = inputs[0]->getShape(), w = inputs[1]->getShape();
  auto window = readWindow(node, x.drop_front(2), w.drop_front(2));
  int64_t groups = node.getInt("group", 1);
  if (!window || groups < 1 || x[1] != w[1] * groups || w[0] % groups != 0)
    return std::nullopt;
  Convolution c{x[0], groups, w[1], w[0] / groups, *window, 0, 0, 0};
  const HostTensor *bias = inputAt(inputs, 2);
  if (!complete(c, bias))
    return std::nullopt;
  std::vector<Scalar> data = inputs[0]->flatten(),
                      kernel = inputs[1]->flatten();
  std::vector<double> sums(c.samples * groups * c.outputs * c.outputSize, 0);
  for (int64_t row = 0; row < c.samples * groups * c.outputs && c.outputSize;
       ++row) {
    int64_t filter = row % (groups * c.outputs), part = row / c.outputs;
    for (int64_t channel = 0; channel < c.inputs; ++channel)
      forEachTap(c.window, [&](int64_t from, int64_t tap, int64_t to) {
        sums[row * c.outputSize + to] +=
            data[(part * c.inputs + channel) * c.inputSize + from].f *
            kernel[(filter * c.inputs + channel) * c.kernelSize + tap].f;
      });
  }
  return finish(c, sums, bias, inputs[0]->getElementType());
}

/// The window of the convolution whose gradient a ConvTranspose is: its input
/// is the transposed one's output.
std::optional<Window> readTransposedWindow(onnx::NodeOp node,
                                           ArrayRef<int64_t> input,
                                           ArrayRef<int64_t> kernel) {
  size_t rank = input.size();
  auto stride = readPerAxis(node, "strides", rank, 1, 1),
       dilation = readPerAxis(node, "dilations", rank, 1, 1),
       pads = readPerAxis(node, "pads", 2 * rank, 0, 0),
       extra = readPerAxis(node, "output_padding", rank, 0, 0),
       wanted = readPerAxis(node, "output_shape", rank, -1, -1);
  StringRef automatic = node.getString("auto_pad", "NOTSET");
  bool same = automatic == "SAME_LOWER" || automatic == "SAME_UPPER";
  if (!stride || !dilation || !pads || !extra || !wanted)
    return std::nullopt;
  Window w;
  w.output.assign(input.begin(), input.end());
  w.kernel.assign(kernel.begin(), kernel.end());
  w.stride = *stride;
  w.dilation = *dilation;
  for (size_t i = 0; i < rank; ++i) {
    int64_t span = (kernel[i] - 1) * w.dilation[i] + 1;
    int64_t full = (input[i] - 1) * w.stride[i] + (*extra)[i] + span;
    int64_t before = (*pads)[i], after = (*pads)[rank + i];
    int64_t size = (*wanted)[i];
    if (size < 0 && same) {
      size = input[i] * w.stride[i];
      // What stands beyond the last product is told nowhere.
      if (size > full)
        return std::nullopt;
    }
    if (size >= 0) {
      int64_t total = std::max<int64_t>(0, full - size);
      before = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      after = total - before;
    }
    w.before.push_back(before);
    w.after.push_back(after);
    w.input.push_back(size >= 0 ? size : full - before - after);
    if (w.input.back() < 0)
      return std::nullopt;
  }
  return w;
}

HostOutputs convTranspose(onnx::NodeOp node, HostInputs inputs) {
  if (!areConvolved(inputs))
    return std::nullopt;
  ArrayRef<int64_t> x = inputs[0]->getShape(), w = inputs[1]->getShape();
  auto window = readTransposedWindow(node, x.drop_front(2), w.drop_front(2));
  int64_t groups = node.getInt("group", 1);
  if (!window || groups < 1 || x[1] != w[0] || w[0] % groups != 0 ||
      x.drop_front(2).size() != window->output.size())
    return std::nullopt;
  Convolution c{x[0], groups, w[0] / groups, w[1], *window, 0, 0, 0};
  const HostTensor *bias = inputAt(inputs, 2);
  if (!complete(c, bias) || c.outputSize == 0)
    return std::nullopt;
  std::vector<Scalar> data = inputs[0]->flatten(),
                      kernel = inputs[1]->flatten();
  std::vector<double> sums(c.samples * groups * c.outputs * c.inputSize, 0);
  for (int64_t row = 0; row < c.samples * groups * c.outputs; ++row) {
    int64_t part = row / c.outputs, filter = row % c.outputs;
    for (int64_t channel = 0; channel < c.inputs; ++channel) {
      int64_t from = part * c.inputs + channel;
      int64_t of = (from % (groups * c.inputs)) * c.outputs + filter;
      forEachTap(c.window, [&](int64_t to, int64_t tap, int64_t at) {
        sums[row * c.inputSize + to] += data[from * c.outputSize + at].f *
                                        kernel[of * c.kernelSize + tap].f;
      });
    }
  }
  // What the window reads is what is made here.
  c.window.output = c.window.input;
  c.outputSize = c.inputSize;
  return finish(c, sums, bias, inputs[0]->getElementType());
}

/// Adds up the columns of blocks where they overlap in the image.
HostOutputs col2Im(onnx::NodeOp node, HostInputs inputs) {
  auto image = shortInts(inputAt(inputs, 1)),
       block = shortInts(inputAt(inputs, 2));
  if (!hasInputs(inputs, 1) || !image || !block || image->empty() ||
      inputs[0]->getRank() != 3 || !inputs[0]->isFloat() ||
      !countOf(inputs[0]->getShape()) ||
      llvm::any_of(*image, [](int64_t dim) { return dim < 1; }))
    return std::nullopt;
  auto window = readWindow(node, *image, *block);
  if (!window)
    return std::nullopt;
  auto pixels = countOf(*image), taps = countOf(*block),
       blocks = countOf(window->output);
  ArrayRef<int64_t> shape = inputs[0]->getShape();
  if (!pixels || !taps || !blocks || shape[1] % *taps != 0 ||
      shape[2] != *blocks)
    return std::nullopt;
  int64_t channels = shape[1] / *taps;
  HostTensor::Dims result = {shape[0], channels};
  result.append(image->begin(), image->end());
  auto count = countOf(result);
  if (!count)
    return std::nullopt;
  std::vector<Scalar> data = inputs[0]->flatten();
  std::vector<Scalar> sums(*count, ofFloat(0));
  Type type = inputs[0]->getElementType();
  for (int64_t plane = 0; plane < shape[0] * channels; ++plane)
    forEachTap(*window, [&](int64_t pixel, int64_t tap, int64_t at) {
      sums[plane * *pixels + pixel].f +=
          data[(plane * *taps + tap) * *blocks + at].f;
    });
  for (Scalar &sum : sums)
    sum.f = roundTo(sum.f, type);
  return one(HostTensor::dense(result, type, std::move(sums)));
}

} // namespace

void addConvEvaluators(llvm::StringMap<Evaluator> &table) {
  table["Conv"] = conv;
  table["ConvTranspose"] = convTranspose;
  table["Col2Im"] = col2Im;
}

} // namespace shardonnx
