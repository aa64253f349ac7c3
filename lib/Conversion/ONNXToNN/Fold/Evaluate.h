// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An interpreter of ONNX nodes whose inputs are all known: shapes, masks,
// position ids and rotary tables become values before anything is lowered.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_FOLD_EVALUATE_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_FOLD_EVALUATE_H

#include "../Attributes/Axes.h"
#include "../Attributes/Slices.h"
#include "shardonnx/Dialect/NN/Interpreter/Arithmetic.h"
#include "shardonnx/Dialect/NN/Interpreter/Elements.h"
#include "shardonnx/Dialect/NN/Interpreter/HostTensor.h"
#include "shardonnx/Dialect/ONNX/IR/ONNX.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

namespace shardonnx {

using nn::advance;
using nn::HostTensor;
using nn::ofFloat;
using nn::ofInt;
using nn::roundTo;
using nn::Scalar;
using nn::wrapTo;

/// The inputs of a node; null where an optional one is absent.
using HostInputs = llvm::ArrayRef<const HostTensor *>;
using HostOutputs = std::optional<llvm::SmallVector<HostTensor, 1>>;

/// Computes one node; none when it cannot. All inputs that the node has are
/// there; it may compute more outputs than the node has.
using Evaluator = HostOutputs (*)(onnx::NodeOp, HostInputs);

// An op type whose schema has a function body gets an evaluator only where it
// has a lowering, too: the body is as good, and it serves inputs that are data.
void addBitEvaluators(llvm::StringMap<Evaluator> &table);
void addConstantEvaluators(llvm::StringMap<Evaluator> &table);
void addDeterminantEvaluators(llvm::StringMap<Evaluator> &table);
void addNormEvaluators(llvm::StringMap<Evaluator> &table);
void addSelectEvaluators(llvm::StringMap<Evaluator> &table);

/// The evaluator of an op type, or null.
Evaluator findEvaluator(llvm::StringRef opType);

/// What one evaluation may make.
inline constexpr int64_t maxEvaluated = int64_t(1) << 25;

// Single elements, where an evaluator does not keep the arithmetic of a type.
inline Scalar scalarOf(double value, mlir::Type type) {
  return nn::Arithmetic(type).of(value);
}
inline double toDouble(Scalar value, mlir::Type type) {
  return nn::Arithmetic(type).toDouble(value);
}
inline int compareScalars(Scalar a, Scalar b, mlir::Type type) {
  return nn::Arithmetic(type).compare(a, b);
}
inline std::optional<HostTensor::Dims>
broadcastShapes(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b) {
  return HostTensor::broadcastShapes(a, b);
}

inline HostOutputs one(std::optional<HostTensor> result) {
  if (!result)
    return std::nullopt;
  HostOutputs outputs(std::in_place);
  outputs->push_back(std::move(*result));
  return outputs;
}

/// Input `index`, or null where it is absent.
inline const HostTensor *inputAt(HostInputs inputs, size_t index) {
  return index < inputs.size() ? inputs[index] : nullptr;
}

/// Whether the first `count` inputs are there.
inline bool hasInputs(HostInputs inputs, size_t count) {
  return inputs.size() >= count &&
         llvm::all_of(inputs.take_front(count),
                      [](const HostTensor *tensor) { return tensor; });
}

/// The number of elements; none when there are more than may be computed.
std::optional<int64_t> countOf(llvm::ArrayRef<int64_t> shape);

/// A shape seen from one of its axes: `outer` × `length` × `inner` elements.
struct AxisView {
  int64_t outer = 1, length, inner = 1;
  AxisView(llvm::ArrayRef<int64_t> shape, unsigned axis);
  int64_t at(int64_t o, int64_t n, int64_t i) const {
    return (o * length + n) * inner + i;
  }
};

/// The element type for a TensorProto.DataType as the graph writes it.
mlir::Type elementTypeOf(int64_t dataType, mlir::MLIRContext *context);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_FOLD_EVALUATE_H
