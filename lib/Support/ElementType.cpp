// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "shardonnx/Support/ElementType.h"

using namespace mlir;

namespace shardonnx {

int64_t elementBytes(Type type) {
  return (type.getIntOrFloatBitWidth() + 7) / 8;
}

Type typeOfDtype(MLIRContext *context, ShxDType dtype) {
  switch (dtype) {
  case SHX_F32:
    return Float32Type::get(context);
  case SHX_BF16:
    return BFloat16Type::get(context);
  case SHX_F16:
    return Float16Type::get(context);
  case SHX_I64:
    return IntegerType::get(context, 64);
  case SHX_I32:
    return IntegerType::get(context, 32);
  case SHX_I1:
    return IntegerType::get(context, 1);
  case SHX_I8:
    return IntegerType::get(context, 8);
  case SHX_F8E4M3:
    return Float8E4M3FNType::get(context);
  case SHX_F8E5M2:
    return Float8E5M2Type::get(context);
  }
  llvm_unreachable("every dtype has a type");
}

ShxDType dtypeOf(Type type) {
  for (ShxDType dtype : allValues<ShxDType>())
    if (type == typeOfDtype(type.getContext(), dtype))
      return dtype;
  llvm_unreachable("nn has no other element types");
}

} // namespace shardonnx
