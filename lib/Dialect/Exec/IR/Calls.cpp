// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The interfaces of library calls, and what the files of the calls share.

#include "Calls.h"

#include "shardonnx/Support/Origin.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

#include "shardonnx/Dialect/Exec/IR/ExecInterfaces.cpp.inc"

//===----------------------------------------------------------------------===//
// What a call says to the runtime
//===----------------------------------------------------------------------===//

int64_t exec::batchStride(MemRefType type, int64_t fromEnd) {
  int64_t axis = type.getRank() - fromEnd;
  if (axis < 0 || type.getDimSize(axis) == 1)
    return 0;
  return stridesOf(type)[axis];
}

int64_t exec::rowDistance(MemRefType type) {
  SmallVector<int64_t> strides = stridesOf(type);
  for (int64_t axis = type.getRank() - 2; axis >= 0; --axis)
    if (type.getDimSize(axis) != 1)
      return strides[axis];
  return type.getDimSize(type.getRank() - 1);
}

ProgramConstant exec::originOf(Operation *op) {
  std::string words = describeOrigin(op->getLoc());
  return {(words.empty() ? "an op" : words) + '\0', "name", /*alignment=*/1};
}

//===----------------------------------------------------------------------===//
// What a call moves
//===----------------------------------------------------------------------===//

double exec::bytesOf(Value buffer) {
  MemRefType type = typeOf(buffer);
  auto bytes = double(elementBytes(type.getElementType()));
  for (auto [size, stride] : llvm::zip_equal(type.getShape(), stridesOf(type)))
    bytes *= stride == 0 ? 1 : double(size);
  return bytes;
}

Traffic exec::operandTraffic(Operation *op) {
  Traffic traffic;
  SmallVector<MemoryEffects::EffectInstance> effects;
  cast<MemoryEffectOpInterface>(op).getEffects(effects);
  for (const MemoryEffects::EffectInstance &effect : effects) {
    Value value = effect.getValue();
    if (!value || !isa<MemRefType>(value.getType()))
      continue;
    if (isa<MemoryEffects::Read>(effect.getEffect()))
      traffic.read += bytesOf(value);
    else if (isa<MemoryEffects::Write>(effect.getEffect()))
      traffic.written += bytesOf(value);
  }
  if (auto call = dyn_cast<RuntimeCallOpInterface>(op))
    if (Value target = call.getAccumulationTarget())
      traffic.read += bytesOf(target);
  return traffic;
}

//===----------------------------------------------------------------------===//
// What a call asks of buffers
//===----------------------------------------------------------------------===//

bool exec::hasUnitStride(MemRefType type, int64_t axis) {
  return type.getDimSize(axis) == 1 || stridesOf(type)[axis] == 1;
}

LogicalResult exec::verifyContiguous(Operation *op, StringRef what,
                                     Value value) {
  if (value && !isContiguous(typeOf(value)))
    return op->emitOpError() << what << " must be contiguous";
  return success();
}

LogicalResult exec::verifyRows(Operation *op, StringRef what, Value value) {
  MemRefType type = typeOf(value);
  SmallVector<int64_t> strides = stridesOf(type);
  int64_t rank = type.getRank();
  bool rows = rank >= 1 && hasUnitStride(type, rank - 1);
  for (int64_t axis = rank - 3; rows && axis >= 0; --axis)
    rows = type.getDimSize(axis) == 1 ||
           strides[axis] == strides[axis + 1] * type.getDimSize(axis + 1);
  if (!rows)
    return op->emitOpError() << what << " must be rows at one distance";
  return success();
}

//===----------------------------------------------------------------------===//
// What an nn op makes a call with
//===----------------------------------------------------------------------===//

Value CallEmitter::rowsBuffer(Value operand) {
  Storage storage = storageOf(operand);
  return bufferOf(storage.layout.isUnit(1) ? storage : contiguous(operand));
}

// Models may have more axes than a call: those that both sides walk as one are
// one.
void CallEmitter::copy(const Storage &source, const Storage &target,
                       bool accumulate) {
  Storage from = source, to = target;
  if (from.layout.rank() > SHX_MAX_RANK)
    mergeAxes(from.layout, to.layout);
  Value buffer = bufferOf(from);
  CopyOp::create(builder, loc, buffer, bufferOf(to), accumulate);
}

void CallEmitter::fillWithZero(const Storage &target) {
  ZeroOp::create(builder, loc, bufferOf(target));
}

void CallEmitter::addWorkspace(WorkspaceOpInterface call) {
  int64_t bytes = call.getWorkspaceBytes(options.libraries);
  if (bytes == 0)
    return;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(call);
  Value space = AllocOp::create(builder, loc,
                                MemRefType::get(bytes, builder.getI8Type()));
  call.getWorkspaceMutable().assign(space);
}
