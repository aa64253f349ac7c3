// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX types and tensors as MLIR types and attributes.

#ifndef SHARDONNX_LIB_IMPORT_TYPES_H
#define SHARDONNX_LIB_IMPORT_TYPES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace onnx {
class TensorProto;
class TypeProto;
} // namespace onnx

namespace shardonnx {

/// The element type for a TensorProto.DataType, or null when there is none.
mlir::Type convertElementType(int dataType, mlir::MLIRContext *context);

/// The type of a value, or null. Unknown dimensions are dynamic.
mlir::Type convertType(const ::onnx::TypeProto &type,
                       mlir::MLIRContext *context);

/// The type of a tensor, or null when a dimension is negative, the element
/// type is unknown, or its size overflows.
mlir::RankedTensorType convertTensorType(const ::onnx::TensorProto &tensor,
                                         mlir::MLIRContext *context);

/// Whether a tensor has more elements than can be counted with safely, once
/// they are multiplied by their size and added up.
bool isTooLarge(mlir::Type type);

/// The bytes that a tensor of this type takes in a file.
uint64_t storageBytes(mlir::RankedTensorType type);

/// The value of a tensor whose data is in the message, or null when the data
/// is absent or of another size.
mlir::DenseElementsAttr convertTensor(const ::onnx::TensorProto &tensor,
                                      mlir::MLIRContext *context);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_TYPES_H
