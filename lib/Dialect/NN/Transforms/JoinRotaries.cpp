// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-join-rotaries: heads that lie side by side in one product (query and key)
// and turn by the same angles become one rotary embedding of all of them. What
// differentiation makes of it is one, too.

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_JOINROTARIESPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

namespace {

/// A rotary embedding of some columns of a matrix, as heads.
struct Heads {
  RotaryOp rotary;
  SliceOp slice;
  int64_t offset, width; // columns
};

} // namespace

/// The axes of [batch, seq, heads, headDim].
static constexpr unsigned kHeadsAxis = 2;

/// The columns that the op alone reads as heads; none if it reads anything
/// else.
static std::optional<Heads> headsOf(RotaryOp rotary) {
  Value value = rotary.getOperand();
  auto reshape = value.getDefiningOp<ReshapeOp>();
  if (!reshape || !reshape->hasOneUse())
    return std::nullopt;
  auto slice = reshape.getOperand().getDefiningOp<SliceOp>();
  if (!slice || !slice->hasOneUse() || unitOf(slice) != unitOf(rotary))
    return std::nullopt;
  ArrayRef<int64_t> whole = shapeOf(slice.getOperand()),
                    sizes = slice.getSizes(), heads = shapeOf(value);
  if (whole.drop_back() != sizes.drop_back() ||
      sizes.back() != heads[kHeadsAxis] * heads[kHeadsAxis + 1])
    return std::nullopt;
  return Heads{rotary, slice, slice.getOffsets().back(), sizes.back()};
}

/// Whether `b` lies right behind `a` and turns with it.
static bool fitTogether(const Heads &a, const Heads &b) {
  RotaryOp x = a.rotary, y = b.rotary;
  ArrayRef<int64_t> one = shapeOf(x.getOperand()),
                    other = shapeOf(y.getOperand());
  return a.offset + a.width == b.offset && one.back() == other.back() &&
         one.take_front(kHeadsAxis) == other.take_front(kHeadsAxis) &&
         x.getCos() == y.getCos() && x.getSin() == y.getSin() &&
         x.getInterleaved() == y.getInterleaved() &&
         x.getInverse() == y.getInverse() &&
         x.getPlaceAttr() == y.getPlaceAttr();
}

static void join(ArrayRef<Heads> parts) {
  RotaryOp first = parts.front().rotary;
  for (const Heads &part : parts)
    if (part.rotary->isBeforeInBlock(first))
      first = part.rotary;
  PlaceListener listener(first.getPlaceAttr());
  OpBuilder builder(first, &listener);
  NNBuilder b(builder, first.getLoc());
  int64_t width = 0;
  for (const Heads &part : parts)
    width += part.width;
  SliceOp columnsOfFirst = parts.front().slice;
  Value matrix = columnsOfFirst.getOperand();
  Value columns =
      b.slice(matrix, rankOf(matrix) - 1, parts.front().offset, width);
  SmallVector<int64_t> shape(shapeOf(first.getOperand()));
  shape[kHeadsAxis] = width / shape.back();
  Value whole = RotaryOp::create(
      builder, first.getLoc(), b.reshape(columns, shape), first.getCos(),
      first.getSin(), first.getInterleaved(), first.getInverse());
  int64_t offset = 0;
  for (const Heads &part : parts) {
    RotaryOp old = part.rotary;
    int64_t heads = shapeOf(old.getResult())[kHeadsAxis];
    old.getResult().replaceAllUsesWith(
        b.slice(whole, kHeadsAxis, offset, heads));
    offset += heads;
  }
  for (const Heads &part : parts) {
    RotaryOp old = part.rotary;
    Operation *reshape = old.getOperand().getDefiningOp();
    SliceOp slice = part.slice;
    old.erase();
    reshape->erase();
    slice.erase();
  }
}

static void joinIn(Block &block) {
  llvm::MapVector<Value, SmallVector<Heads>> ofMatrix;
  for (auto rotary : block.getOps<RotaryOp>())
    if (std::optional<Heads> heads = headsOf(rotary))
      ofMatrix[heads->slice.getOperand()].push_back(*heads);
  for (auto &[matrix, all] : ofMatrix) {
    llvm::sort(all, [](const Heads &a, const Heads &b) {
      return a.offset < b.offset;
    });
    for (size_t begin = 0, end; begin < all.size(); begin = end) {
      end = begin + 1;
      while (end < all.size() && fitTogether(all[end - 1], all[end]))
        ++end;
      if (end - begin > 1)
        join(ArrayRef(all).slice(begin, end - begin));
    }
  }
}

namespace {
struct JoinRotariesPass : nn::impl::JoinRotariesPassBase<JoinRotariesPass> {
  void runOnOperation() override {
    getOperation()->walk([](Block *block) { joinIn(*block); });
  }
};
} // namespace
