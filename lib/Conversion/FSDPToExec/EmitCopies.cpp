// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What moves elements: concatenation, padding and windows, which are views and
// strided copies.

#include "Emitter.h"

#include "shardonnx/Dialect/NN/IR/NNIndex.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

void Emitter::copyUnlessThere(const Storage &source, const Storage &target,
                              bool accumulate) {
  if (source.root != target.root || !(source.layout == target.layout))
    copy(source, target, accumulate);
}

// Parameters that lie side by side in one unit, as one tensor there; none if
// they do not.
std::optional<Storage> Emitter::joinInPlace(nn::ConcatOp op) {
  if (op.getAxis() != 0)
    return std::nullopt;
  Storage first = storageOf(op.getInputs().front());
  int64_t end = first.root->offset;
  for (Value input : op.getInputs()) {
    Storage part = storageOf(input);
    if (part.root->space != Space::params ||
        part.root->symbol != first.root->symbol || part.root->offset != end ||
        part.layout.offset != 0 || !part.layout.isContiguous() ||
        part.layout.numElements() !=
            ShapedType::getNumElements(part.root->shape))
      return std::nullopt;
    end +=
        part.layout.numElements() * exec::elementBytes(part.root->elementType);
  }
  Root *&root = joinedRoots[{first.root, op.getInputs().size()}];
  if (!root) {
    Root made = *first.root;
    made.value = Value();
    made.shape.assign(nn::shapeOf(op.getResult()).begin(),
                      nn::shapeOf(op.getResult()).end());
    root = placement.newRoot(std::move(made));
  }
  return Storage{root, Layout::rowMajor(nn::shapeOf(op.getResult()))};
}

void Emitter::emit(nn::ConcatOp op) {
  if (std::optional<Storage> joined = joinInPlace(op)) {
    storages[op.getResult()] = *joined;
    return;
  }
  resultStorage(op.getResult());
  for (auto [index, input] : llvm::enumerate(op.getInputs()))
    copyUnlessThere(storageOf(input), placement.partOf(op, index));
}

void Emitter::emit(nn::PadOp op) {
  Storage result = resultStorage(op.getResult());
  fillWithZero(result);
  Storage inner = result;
  inner.layout = result.layout.slice(op.getLow(), nn::shapeOf(op.getOperand()));
  copy(storageOf(op.getOperand()), inner);
}

/// The layout of nn.windows of a tensor of this one.
static Layout windowsOf(Layout layout, nn::WindowsOp op) {
  ArrayRef<int64_t> shape = nn::shapeOf(op.getResult());
  layout.shape.assign(shape.begin(), shape.end());
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
  if (storage.root->space == Space::params)
    storage = copyOf(storage);
  storage.layout = windowsOf(storage.layout, op);
  storages[op.getResult()] = storage;
}

// One copy for each place in a window: the elements there never meet.
void Emitter::emit(nn::OverlapAddOp op) {
  Storage windows = storageOf(op.getOperand());
  Storage result = resultStorage(op.getResult());
  fillWithZero(result);
  ArrayRef<int64_t> shape = nn::shapeOf(op.getOperand()), axes = op.getAxes();
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
    copy(source, target, /*accumulate=*/true);
  }
}
