// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The evaluator of an op that is one function of a real number, on floats.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_FOLD_UNARY_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_FOLD_UNARY_H

#include "Evaluate.h"

namespace shardonnx {

template <double (*Function)(double)>
HostOutputs unary(onnx::NodeOp, HostInputs inputs) {
  if (!hasInputs(inputs, 1) || !inputs[0]->isFloat())
    return std::nullopt;
  mlir::Type type = inputs[0]->getElementType();
  return one(HostTensor::map({*inputs[0]}, type, [&](llvm::ArrayRef<Scalar> x) {
    return ofFloat(roundTo(Function(x[0].f), type));
  }));
}

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_FOLD_UNARY_H
