// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --tensor-plan: how a person wants parameters to be split.

#ifndef SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_TENSORPLAN_H
#define SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_TENSORPLAN_H

#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/runtime/Spelling.h"
#include "llvm/ADT/StringMap.h"

namespace shardonnx {

/// As torch.distributed.tensor.parallel names them: a linear layer by what it
/// gives or by what it reads, a lookup by the width or the words of its table.
enum class ParallelStyle { Colwise, Rowwise, Replicate };

template <> struct Spellings<ParallelStyle> {
  static constexpr Spelling<ParallelStyle> table[] = {
      {ParallelStyle::Colwise, "colwise"},
      {ParallelStyle::Rowwise, "rowwise"},
      {ParallelStyle::Replicate, "replicate"}};
};

namespace nn {

/// Of parameters, by their symbols.
using TensorPlan = llvm::StringMap<ParallelStyle>;

/// Of a JSON file of regexes over whole names and the style of each; failure,
/// with an error, where it says what cannot be or what no parameter is.
llvm::FailureOr<TensorPlan> readTensorPlan(mlir::ModuleOp module,
                                           llvm::StringRef path);

} // namespace nn
} // namespace shardonnx

#endif // SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_TENSORPLAN_H
