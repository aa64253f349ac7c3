// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What chooses elements: calls with indices, and windows, which are views and
// strided copies.

#include "Emitter.h"

#include "shardonnx/Dialect/Exec/IR/ExecIndex.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shardonnx;

/// The layout of nn.windows of a tensor of this one.
static Layout windowsOf(Layout layout, nn::WindowsOp op) {
  layout.shape.assign(shapeOf(op.getResult()).begin(),
                      shapeOf(op.getResult()).end());
  for (auto [axis, stride, dilation] :
       llvm::zip(op.getAxes(), op.getStrides(), op.getDilations())) {
    layout.strides.push_back(layout.strides[axis] * dilation);
    layout.strides[axis] *= stride;
  }
  return layout;
}

// The gathered unit is gone when a later op reads a view of it.
void Emitter::emit(nn::WindowsOp op) {
  Storage storage = storageOf(op.getOperand());
  if (storage.root->space == exec::Space::params)
    storage = copyOf(loc, storage);
  storage.layout = windowsOf(storage.layout, op);
  storages[op.getResult()] = storage;
}

// One copy for each place in a window: the elements there never meet.
void Emitter::emit(nn::OverlapAddOp op) {
  Storage windows = storageOf(op.getOperand());
  Storage result = resultStorage(op.getResult());
  exec::ZeroOp::create(builder, loc, bufferOf(result));
  ArrayRef<int64_t> shape = shapeOf(op.getOperand()), axes = op.getAxes();
  ArrayRef<int64_t> sizes = shape.take_back(axes.size());
  SmallVector<int64_t> kept(shape.drop_back(axes.size()));
  SmallVector<int64_t> at(shape.size(), 0), one(kept);
  one.append(axes.size(), 1);
  for (int64_t n = ShapedType::getNumElements(sizes), i = 0; i < n; ++i) {
    Storage source = windows, target = result;
    target.layout.shape = kept;
    int64_t rest = i;
    for (int64_t w = int64_t(axes.size()) - 1; w >= 0; --w) {
      int64_t place = rest % sizes[w];
      rest /= sizes[w];
      at[kept.size() + w] = place;
      int64_t &stride = target.layout.strides[axes[w]];
      target.layout.offset += place * op.getDilations()[w] * stride;
      stride *= op.getStrides()[w];
    }
    source.layout = *windows.layout.slice(at, one).reshape(kept);
    copy(loc, source, target, /*accumulate=*/true);
  }
}

void Emitter::emit(nn::GatherOp op) {
  Value data = bufferOf(storageOf(op.getData()));
  Value indices = bufferOf(storageOf(op.getIndices()));
  exec::GatherElementsOp::create(builder, loc, data, indices,
                                 resultBuffer(op.getResult()), op.getDataAxes(),
                                 op.getIndexAxes(), op.getIndexedAxes());
}

void Emitter::emit(nn::ScatterOp op) {
  Value indices = bufferOf(storageOf(op.getIndices()));
  Value updates = bufferOf(storageOf(op.getUpdates()));
  Storage result = resultStorage(op.getResult());
  if (op.getData())
    copy(loc, storageOf(op.getData()), result);
  else
    exec::ZeroOp::create(builder, loc, bufferOf(result));
  exec::ScatterOp::create(builder, loc, indices, updates, bufferOf(result),
                          int64_t(op.getReduction()), op.getDataAxes(),
                          op.getIndexAxes(), op.getIndexedAxes());
}

void Emitter::emit(nn::TopKOp op) {
  Value operand = bufferOf(storageOf(op.getOperand()));
  Value values = resultBuffer(op.getValues());
  exec::TopKOp::create(builder, loc, operand, values,
                       resultBuffer(op.getIndices()), op.getAxis(),
                       op.getSmallest(), op.getLastFirst());
}

void Emitter::emit(nn::GroupedMatmulOp op) {
  Value rows = headsBuffer(op.getRows());
  Value matrices = contiguousBuffer(op.getMatrices());
  Value indices = contiguousBuffer(op.getIndices());
  exec::GroupedGemmOp::create(builder, loc, rows, matrices, indices,
                              resultBuffer(op.getResult()), op.getTransposed());
}

void Emitter::emit(nn::GroupedMatmulGradOp op) {
  Value lhs = headsBuffer(op.getLhs()), rhs = headsBuffer(op.getRhs());
  Value indices = contiguousBuffer(op.getIndices());
  exec::GroupedGemmGradOp::create(builder, loc, lhs, rhs, indices,
                                  resultBuffer(op.getResult()));
}

std::optional<LogicalResult> Emitter::emitIndexOp(Operation &op) {
  if (isa<nn::GatherOp, nn::ScatterOp, nn::TopKOp, nn::GroupedMatmulOp,
          nn::GroupedMatmulGradOp>(op) &&
      &calls.libraries == &cudaLibraries())
    return op.emitError("has no kernel for GPUs; compile with --target=cpu");
  return TypeSwitch<Operation *, std::optional<LogicalResult>>(&op)
      .Case<nn::GatherOp, nn::ScatterOp, nn::TopKOp, nn::WindowsOp,
            nn::OverlapAddOp, nn::GroupedMatmulOp, nn::GroupedMatmulGradOp>(
          [&](auto indexOp) {
            emit(indexOp);
            return success();
          })
      .Default([](Operation *) { return std::nullopt; });
}
