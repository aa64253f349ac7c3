// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See HeadWidths.h.

#include "HeadWidths.h"

#include "shardonnx/Dialect/NN/IR/NN.h"

using namespace mlir;

namespace shardonnx {

Value widen(nn::NNBuilder &b, Value value, int64_t width) {
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  if (shape.back() == width)
    return value;
  SmallVector<int64_t> low(shape.size(), 0), high(shape.size(), 0);
  high.back() = width - shape.back();
  return nn::PadOp::create(b.builder, b.loc, value, low, high);
}

Value narrow(nn::NNBuilder &b, Value value, int64_t width) {
  int64_t last = nn::rankOf(value) - 1;
  return nn::shapeOf(value).back() == width ? value
                                            : b.slice(value, last, 0, width);
}

} // namespace shardonnx
