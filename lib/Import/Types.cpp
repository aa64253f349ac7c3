// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts ONNX types, and tensors that are small enough to live in the IR.

#include "Types.h"

#include "mlir/IR/Builders.h"
#include "shardonnx/Dialect/ONNX/IR/ONNX.h"
#include "llvm/Support/MathExtras.h"

#include <onnx/onnx_pb.h>

using namespace mlir;

namespace shardonnx {

Type convertElementType(int dataType, MLIRContext *context) {
  Builder b(context);
  switch (dataType) {
  case ::onnx::TensorProto::FLOAT:
    return b.getF32Type();
  case ::onnx::TensorProto::FLOAT16:
    return b.getF16Type();
  case ::onnx::TensorProto::BFLOAT16:
    return b.getBF16Type();
  case ::onnx::TensorProto::DOUBLE:
    return b.getF64Type();
  case ::onnx::TensorProto::INT8:
    return b.getI8Type();
  case ::onnx::TensorProto::INT16:
    return b.getI16Type();
  case ::onnx::TensorProto::INT32:
    return b.getI32Type();
  case ::onnx::TensorProto::INT64:
    return b.getI64Type();
  case ::onnx::TensorProto::UINT8:
    return b.getIntegerType(8, false);
  case ::onnx::TensorProto::UINT16:
    return b.getIntegerType(16, false);
  case ::onnx::TensorProto::UINT32:
    return b.getIntegerType(32, false);
  case ::onnx::TensorProto::UINT64:
    return b.getIntegerType(64, false);
  case ::onnx::TensorProto::BOOL:
    return b.getI1Type();
  default:
    return {};
  }
}

static Type convertTensorType(const ::onnx::TypeProto::Tensor &tensor,
                              MLIRContext *context) {
  Type element = convertElementType(tensor.elem_type(), context);
  if (!element)
    return {};
  if (!tensor.has_shape())
    return UnrankedTensorType::get(element);
  SmallVector<int64_t> dims;
  for (const auto &dim : tensor.shape().dim())
    dims.push_back(dim.has_dim_value() && dim.dim_value() >= 0
                       ? dim.dim_value()
                       : ShapedType::kDynamic);
  return RankedTensorType::get(dims, element);
}

Type convertType(const ::onnx::TypeProto &type, MLIRContext *context) {
  if (type.has_tensor_type())
    return convertTensorType(type.tensor_type(), context);
  if (type.has_sequence_type()) {
    Type element = convertType(type.sequence_type().elem_type(), context);
    return element ? shardonnx::onnx::SequenceType::get(context, element)
                   : Type();
  }
  return {};
}

RankedTensorType convertTensorType(const ::onnx::TensorProto &tensor,
                                   MLIRContext *context) {
  Type element = convertElementType(tensor.data_type(), context);
  if (!element)
    return {};
  SmallVector<int64_t> dims(tensor.dims().begin(), tensor.dims().end());
  bool overflow = false;
  uint64_t bytes = 8;
  for (int64_t dim : dims) {
    if (dim < 0)
      return {};
    bool now = false;
    bytes = llvm::SaturatingMultiply(bytes, static_cast<uint64_t>(dim), &now);
    overflow |= now;
  }
  if (overflow || bytes > static_cast<uint64_t>(INT64_MAX))
    return {};
  return RankedTensorType::get(dims, element);
}

bool isTooLarge(Type type) {
  auto tensor = llvm::dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return false;
  uint64_t elements = 1;
  for (int64_t dim : tensor.getShape())
    if (!ShapedType::isDynamic(dim))
      elements = llvm::SaturatingMultiply(elements, static_cast<uint64_t>(dim));
  return elements > uint64_t(1) << 48;
}

uint64_t storageBytes(RankedTensorType type) {
  uint64_t width = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  return width * static_cast<uint64_t>(type.getNumElements());
}

/// Elements that the message holds as varints, one per element.
template <typename T, typename Data>
static std::vector<char> narrow(const Data &data) {
  std::vector<char> bytes;
  bytes.reserve(data.size() * sizeof(T));
  for (auto item : data) {
    T value = static_cast<T>(item);
    const char *raw = reinterpret_cast<const char *>(&value);
    bytes.insert(bytes.end(), raw, raw + sizeof(T));
  }
  return bytes;
}

static std::vector<char> typedBytes(const ::onnx::TensorProto &tensor) {
  switch (tensor.data_type()) {
  case ::onnx::TensorProto::FLOAT:
    return narrow<float>(tensor.float_data());
  case ::onnx::TensorProto::DOUBLE:
    return narrow<double>(tensor.double_data());
  case ::onnx::TensorProto::INT64:
    return narrow<int64_t>(tensor.int64_data());
  case ::onnx::TensorProto::INT32:
    return narrow<int32_t>(tensor.int32_data());
  case ::onnx::TensorProto::UINT32:
    return narrow<uint32_t>(tensor.uint64_data());
  case ::onnx::TensorProto::UINT64:
    return narrow<uint64_t>(tensor.uint64_data());
  case ::onnx::TensorProto::FLOAT16:
  case ::onnx::TensorProto::BFLOAT16:
  case ::onnx::TensorProto::INT16:
  case ::onnx::TensorProto::UINT16:
    return narrow<uint16_t>(tensor.int32_data());
  default:
    return narrow<uint8_t>(tensor.int32_data());
  }
}

DenseElementsAttr convertTensor(const ::onnx::TensorProto &tensor,
                                MLIRContext *context) {
  RankedTensorType type = convertTensorType(tensor, context);
  if (!type || tensor.data_location() == ::onnx::TensorProto::EXTERNAL)
    return {};
  std::vector<char> bytes;
  if (tensor.has_raw_data())
    bytes.assign(tensor.raw_data().begin(), tensor.raw_data().end());
  else
    bytes = typedBytes(tensor);
  if (bytes.size() != storageBytes(type))
    return {};
  if (type.getElementType().isInteger(1)) {
    SmallVector<bool> flags(bytes.begin(), bytes.end());
    return DenseElementsAttr::get(type, flags);
  }
  return DenseElementsAttr::getFromRawBuffer(type, bytes);
}

} // namespace shardonnx
