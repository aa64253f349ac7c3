// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR's types of elements, as memory and the runtime's ABI have them.

#ifndef SHARDONNX_SUPPORT_ELEMENTTYPE_H
#define SHARDONNX_SUPPORT_ELEMENTTYPE_H

#include "shardonnx/runtime/Choices.h"

#include "mlir/IR/BuiltinTypes.h"

namespace shardonnx {

/// Bytes of one element in memory; i1 takes one.
int64_t elementBytes(mlir::Type type);

/// Of a type that the runtime knows.
ShxDType dtypeOf(mlir::Type type);

mlir::Type typeOfDtype(mlir::MLIRContext *context, ShxDType dtype);

} // namespace shardonnx

#endif // SHARDONNX_SUPPORT_ELEMENTTYPE_H
