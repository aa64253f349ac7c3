// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels as functions, and the loops of elementwise kernels.

#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "shardonnx/Codegen/CPU/LowerKernels.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

void KernelEmitter::loadAddresses(Value args) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  for (auto [i, layout] : llvm::enumerate(kernel.getBuffers())) {
    Value slot = LLVM::GEPOp::create(
        b, loc, pointer, pointer, args,
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(kernel.getSlot(i))});
    Value address = LLVM::LoadOp::create(b, loc, pointer, slot, 8);
    if (layout.offset != 0)
      address = body.getMemory().advance(address, constant(layout.offset), 1,
                                         layout.elementType);
    bases.push_back(address);
  }
}

SmallVector<Value> KernelEmitter::delinearize(Value row) {
  ArrayRef<int64_t> sizes = kernel.getLeadingSizes();
  SmallVector<Value> indices(sizes.size());
  for (size_t axis = sizes.size(); axis-- > 0;) {
    if (axis == 0) {
      indices[0] = row;
      break;
    }
    Value size = constant(sizes[axis]);
    indices[axis] = arith::RemUIOp::create(b, loc, row, size);
    row = arith::DivUIOp::create(b, loc, row, size);
  }
  return indices;
}

unsigned kernels::unrollFor(unsigned cost) {
  if (cost <= 12)
    return 4;
  return cost <= 30 ? 2 : 1;
}

/// Emits all outputs at one vector of a flat kernel.
static void emitFlatVector(KernelEmitter &e, Value index, unsigned width,
                           const ValueMap &scalars) {
  Scope scope;
  scope.width = width;
  scope.index = index;
  scope.addresses = e.bases;
  scope.scalars = &scalars;
  // All loads come before the first store: an output may lie where an input
  // lies.
  for (Value value : e.kernel.getYielded())
    e.body.emit(value, scope);
  for (unsigned i = 0; i < e.kernel.getYielded().size(); ++i)
    e.body.storeOutput(i, scope);
}

void kernels::emitFlat(KernelEmitter &e, Value begin, Value end) {
  Scope scalars;
  scalars.addresses = e.bases;
  scalars.index = e.constant(0);
  unsigned cost = 0;
  for (BlockArgument argument : e.kernel.getBody().getArguments())
    if (e.kernel.isUniform(argument))
      e.body.emit(argument, scalars);
  for (Operation &op : e.kernel.getBody().without_terminator()) {
    if (e.kernel.isUniform(op.getResult(0)))
      e.body.emit(op.getResult(0), scalars);
    else
      cost += costOf(&op);
  }

  int64_t lanes = e.target.lanes, unroll = unrollFor(cost);
  // Each loop does what is left for vectors of its width.
  auto sweep = [&](Value from, unsigned width, int64_t times) {
    int64_t stride = width * times;
    Value step = e.constant(stride);
    Value left = arith::SubIOp::create(e.b, e.loc, end, from);
    Value rest = arith::RemUIOp::create(e.b, e.loc, left, step);
    Value to = arith::SubIOp::create(e.b, e.loc, end, rest);
    scf::ForOp loop = e.loop(from, to, step);
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPoint(loop.getBody()->getTerminator());
    for (int64_t k = 0; k < times; ++k) {
      Value index = arith::AddIOp::create(e.b, e.loc, loop.getInductionVar(),
                                          e.constant(k * width));
      emitFlatVector(e, index, width, scalars.values);
    }
    return to;
  };
  Value done = sweep(begin, lanes, unroll);
  if (unroll > 1)
    done = sweep(done, lanes, 1);
  sweep(done, 1, 1);
}

LLVM::LLVMFuncOp kernels::emitKernel(OpBuilder &b, Location loc, StringRef name,
                                     const Kernel &kernel,
                                     const KernelTarget &target) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Type i64 = b.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(b.getContext()), {pointer, i64, i64});
  auto function = LLVM::LLVMFuncOp::create(b, loc, name, type);
  OpBuilder::InsertionGuard guard(b);
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  KernelEmitter emitter(b, loc, kernel, target);
  emitter.loadAddresses(entry->getArgument(0));
  Value begin = entry->getArgument(1), end = entry->getArgument(2);
  switch (kernel.getMode()) {
  case Kernel::Mode::Flat:
    emitFlat(emitter, begin, end);
    break;
  case Kernel::Mode::Rows:
    emitRows(emitter, begin, end);
    break;
  case Kernel::Mode::Columns:
    emitColumns(emitter, begin, end);
    break;
  }
  LLVM::ReturnOp::create(b, loc, ValueRange());
  return function;
}
