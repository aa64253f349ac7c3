// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adapters of experts that lie in one tensor, as PEFT's lora.ParamWrapper has
// them: A [experts · rank, in] holds one expert's matrix behind the other,
// B [out, rank · experts] their columns in turns.

#ifndef SHARDONNX_DIALECT_NN_TRANSFORMS_EXPERTADAPTERS_H
#define SHARDONNX_DIALECT_NN_TRANSFORMS_EXPERTADAPTERS_H

#include "MatrixLookup.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace shardonnx::nn {

/// A product of rows with matrices that they choose from a parameter.
struct Experts {
  MatrixLookup chosen;
  ParameterOp weight; // [experts, out, in] or [experts, in, out]
};

llvm::SmallVector<Experts> findExperts(mlir::func::FuncOp function);

/// Adds to the product what the adapter makes of its rows.
void addExpertAdapter(Experts experts, ParameterOp a, ParameterOp b,
                      double scaling);

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_TRANSFORMS_EXPERTADAPTERS_H
