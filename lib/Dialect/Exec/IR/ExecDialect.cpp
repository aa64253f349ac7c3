// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registration of the exec dialect, and what everyone asks of a memref type.

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/DialectImplementation.h"
#include "shardonnx/Dialect/Exec/IR/Exec.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shardonnx;

#include "shardonnx/Dialect/Exec/IR/ExecOpsDialect.cpp.inc"
#include "shardonnx/Dialect/Exec/IR/ExecOpsEnums.cpp.inc"

void exec::ExecDialect::initialize() {
  registerExecDialectOperations(this);
  // The nn dialect, which this one depends on, is loaded.
  MLIRContext &context = *getContext();
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (auto *call = name.getInterface<RuntimeCallOpInterface>())
      call->attachLibraryCalls(context);
}

bool exec::isCuda(Operation *module) {
  auto target = module->getAttrOfType<StringAttr>(kTargetAttr);
  return target && target.getValue() == spell(TargetKind::CUDA);
}

// MLIR takes layouts for maps, and finds their strides by algebra.
SmallVector<int64_t> exec::stridesOf(MemRefType type) {
  if (auto strided = dyn_cast<StridedLayoutAttr>(type.getLayout()))
    return llvm::to_vector(strided.getStrides());
  if (!type.getLayout().isIdentity() || !type.hasStaticShape())
    return type.getStridesAndOffset().first;
  return computeStrides(type.getShape());
}

int64_t exec::spanOf(MemRefType type) {
  int64_t last = 0;
  for (auto [size, stride] : llvm::zip(type.getShape(), stridesOf(type))) {
    if (size == 0)
      return 0;
    last += (size - 1) * stride;
  }
  return last + 1;
}

bool exec::isContiguous(MemRefType type) {
  int64_t expected = 1;
  SmallVector<int64_t> strides = stridesOf(type);
  for (int64_t i = type.getRank() - 1; i >= 0; --i) {
    int64_t size = type.getDimSize(i);
    if (size != 1 && strides[i] != expected)
      return false;
    expected *= size;
  }
  return true;
}

MemRefType exec::stridedMemRef(ArrayRef<int64_t> shape,
                               ArrayRef<int64_t> strides, Type elementType) {
  int64_t expected = 1;
  bool rowMajor = true;
  for (int64_t i = int64_t(shape.size()) - 1; i >= 0; --i) {
    rowMajor &= strides[i] == expected;
    expected *= shape[i];
  }
  if (rowMajor)
    return MemRefType::get(shape, elementType);
  auto layout =
      StridedLayoutAttr::get(elementType.getContext(), /*offset=*/0, strides);
  return MemRefType::get(shape, elementType, layout);
}

Value exec::rootOf(Value buffer) {
  while (auto view = buffer.getDefiningOp<ViewOp>())
    buffer = view.getSource();
  return buffer;
}
