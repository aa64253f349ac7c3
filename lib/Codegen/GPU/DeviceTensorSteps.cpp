// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps of whole tensors, beside what else a kernel computes: each thread has
// the largest value that it saw, a block joins those of its threads, and all
// blocks join their steps in memory by an atomic maximum. The order does not
// matter: the bits of what is never negative are ordered as the numbers are,
// and those of the step that a NaN gives are beyond them.

#include "DeviceEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

SmallVector<Value> DeviceEmitter::noLargest() {
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
  return SmallVector<Value>(steps.size(), zero);
}

Value DeviceEmitter::addToLargest(Operation *step, Scope &scope,
                                  Value largest) {
  for (Value operand : step->getOperands()) {
    Value size = math::AbsFOp::create(b, loc, body.emit(operand, scope));
    largest = combine(step, largest, combineLanes(step, size));
  }
  return largest;
}

/// The largest of all threads of a block, in its first warp.
SmallVector<Value> DeviceEmitter::joinBlock(ArrayRef<Value> largest) {
  unsigned warps = launch.blockThreads / kWarp;
  SmallVector<Value> totals;
  for (auto [step, value] : llvm::zip_equal(steps, largest))
    totals.push_back(combineWarp(step, value, kWarp));
  if (warps == 1)
    return totals;
  Type f32 = b.getF32Type();
  Value shared = sharedArray(int64_t(steps.size()) * kWarp, "_largest");
  auto slotOf = [&](size_t i, Value at) {
    return body.getMemory().advance(
        shared, index(add(at, i32(int64_t(i) * kWarp))), 1, f32);
  };
  Value warp = div(thread, kWarp), lane = rem(thread, kWarp);
  when(less(lane, i32(1)), [&] {
    for (auto [i, total] : llvm::enumerate(totals))
      LLVM::StoreOp::create(b, loc, total, slotOf(i, warp));
  });
  barrier();
  // A part may be there twice: the largest stays the same.
  Value part = arith::MinUIOp::create(b, loc, lane, i32(warps - 1));
  for (auto [i, step] : llvm::enumerate(steps))
    totals[i] = combineWarp(
        step, LLVM::LoadOp::create(b, loc, f32, slotOf(i, part)), kWarp);
  return totals;
}

void DeviceEmitter::storeSteps(ArrayRef<Value> largest) {
  if (steps.empty())
    return;
  SmallVector<Value> totals = joinBlock(largest);
  auto one = VectorType::get(1, b.getF32Type());
  when(less(thread, i32(1)), [&] {
    for (auto [i, yielded] : llvm::enumerate(kernel.getYielded())) {
      auto op = yielded.getDefiningOp<nn::F8TensorStepOp>();
      if (!op)
        continue;
      Value amax = totals[llvm::find(steps, op) - steps.begin()];
      Value step =
          nn::emitF8Step(b, loc, op.getFormat(),
                         vector::BroadcastOp::create(b, loc, one, amax));
      step = vector::ExtractOp::create(b, loc, step, int64_t(0));
      LLVM::AtomicRMWOp::create(
          b, loc, LLVM::AtomicBinOp::umax, bases[kernel.getNumInputs() + i],
          arith::BitcastOp::create(b, loc, b.getI32Type(), step),
          LLVM::AtomicOrdering::monotonic, "device");
    }
  });
}
