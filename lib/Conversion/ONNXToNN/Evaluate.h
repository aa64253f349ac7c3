// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An interpreter of ONNX nodes whose inputs are all known: shapes, masks,
// position ids and rotary tables become values before anything is lowered.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_EVALUATE_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_EVALUATE_H

#include "HostTensor.h"
#include "shardonnx/Dialect/ONNX/IR/ONNX.h"
#include "llvm/ADT/StringMap.h"

namespace shardonnx {

/// The inputs of a node; null where an optional one is absent.
using HostInputs = llvm::ArrayRef<const HostTensor *>;
using HostOutputs = std::optional<llvm::SmallVector<HostTensor, 1>>;

/// Computes one node; none when it cannot.
using Evaluator = HostOutputs (*)(onnx::NodeOp, HostInputs);

void addElementwiseEvaluators(llvm::StringMap<Evaluator> &table);
void addShapeEvaluators(llvm::StringMap<Evaluator> &table);
void addGatherEvaluators(llvm::StringMap<Evaluator> &table);

/// The evaluator of an op type, or null.
Evaluator findEvaluator(llvm::StringRef opType);

/// The element type for a TensorProto.DataType as the graph writes it.
mlir::Type elementTypeOf(int64_t dataType, mlir::MLIRContext *context);

/// The bounds of a Slice along one axis, as ONNX defines them.
struct SliceBounds {
  int64_t start, step, size;
};
SliceBounds clampSlice(int64_t start, int64_t end, int64_t step, int64_t dim);

/// The shape that a Reshape to `wanted` has; none when it does not fit.
std::optional<HostTensor::Dims> resolveReshape(llvm::ArrayRef<int64_t> from,
                                               llvm::ArrayRef<int64_t> wanted,
                                               bool allowZero);

/// Non-negative `axis` of a tensor of `rank`; none when out of range.
std::optional<unsigned> normalizeAxis(int64_t axis, int64_t rank);

/// The axes of a node that has them as an attribute or as input 1, sorted and
/// non-negative; none when they are not known or out of range.
std::optional<llvm::SmallVector<int64_t>>
readAxes(onnx::NodeOp node, const HostTensor *input, int64_t rank);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_EVALUATE_H
