// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Scores.h.

#include "Scores.h"

#include "MaskFlags.h"

using namespace mlir;

namespace shardonnx {

bool isOfBatchHeads(nn::ReshapeOp reshape,
                    std::optional<BatchHeads> &batchHeads) {
  ArrayRef<int64_t> from = shapeOf(reshape.getOperand()),
                    to = shapeOf(reshape.getResult());
  ArrayRef<int64_t> wide = from.size() == 4 ? from : to;
  if (from.size() + to.size() != 7 || wide.size() != 4 ||
      from.take_back(2) != to.take_back(2))
    return false;
  batchHeads = {wide[0], wide[1]};
  return true;
}

namespace {

bool isQueryKeyProduct(Value value) {
  return static_cast<bool>(value.getDefiningOp<nn::MatmulOp>());
}

/// cap·tanh(scale·x/cap), down to x.
Value matchSoftcap(Value value, double &cap, double &scale) {
  auto product = matchWithSplat<nn::MulOp>(value);
  auto tanh =
      product ? product->first.getDefiningOp<nn::TanhOp>() : nn::TanhOp();
  if (!tanh || product->second <= 0)
    return {};
  cap = product->second;
  scale = cap;
  return stripScale(tanh.getOperand(), scale);
}

/// Whether the product of queries and keys is behind `value`.
bool leadsToProduct(Value value, unsigned depth = 0) {
  value = stripCasts(value);
  Operation *op = value.getDefiningOp();
  if (!op || depth > 8)
    return false;
  if (isa<nn::MatmulOp>(op))
    return true;
  if (isa<nn::AddOp, nn::MulOp, nn::DivOp, nn::TanhOp, nn::SelectOp,
          nn::ReshapeOp>(op))
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      return leadsToProduct(operand, depth + 1);
    });
  return false;
}

} // namespace

/// What is repeated over samples and queries as [batch, heads, queries, 1]: an
/// element for each head. Null if something else is.
static Value matchSink(Value value) {
  if (rankOf(value) != 4 || shapeOf(value)[3] != 1)
    return {};
  int64_t heads = shapeOf(value)[1];
  while (auto broadcast = stripCasts(value).getDefiningOp<nn::BroadcastOp>())
    value = broadcast.getOperand();
  ArrayRef<int64_t> shape = shapeOf(value);
  bool perHead = shape.size() >= 3 && shape[shape.size() - 3] == heads;
  return perHead && nn::tensorType(value).getNumElements() == heads ? value
                                                                    : Value();
}

std::optional<WeightedScores> matchWeights(Value weights) {
  if (auto softmax = weights.getDefiningOp<nn::SoftmaxOp>())
    return WeightedScores{softmax.getOperand(), {}};
  auto slice = weights.getDefiningOp<nn::SliceOp>();
  auto softmax =
      slice ? stripCasts(slice.getOperand()).getDefiningOp<nn::SoftmaxOp>()
            : nn::SoftmaxOp();
  auto concat =
      softmax ? stripCasts(softmax.getOperand()).getDefiningOp<nn::ConcatOp>()
              : nn::ConcatOp();
  if (!concat || concat->getNumOperands() != 2 ||
      int64_t(concat.getAxis()) != rankOf(concat.getResult()) - 1)
    return std::nullopt;
  // The sink is the last score or the first.
  int64_t first = slice.getOffsets().back();
  Value scores = concat->getOperand(first == 0 ? 0 : 1),
        beside = concat->getOperand(first == 0 ? 1 : 0);
  Value sink = matchSink(beside);
  if (!sink || first > 1 || shapeOf(slice.getResult()) != shapeOf(scores))
    return std::nullopt;
  return WeightedScores{scores, sink};
}

std::optional<Scores> matchScores(Value value) {
  Scores scores;
  while (true) {
    value = stripCasts(value);
    if (isQueryKeyProduct(value)) {
      scores.product = value.getDefiningOp<nn::MatmulOp>();
      return scores;
    }
    if (auto reshape = value.getDefiningOp<nn::ReshapeOp>()) {
      if (!isOfBatchHeads(reshape, scores.batchHeads))
        return std::nullopt;
      value = reshape.getOperand();
      continue;
    }
    // Masks come after the cap, mostly after the scale.
    if (auto add = value.getDefiningOp<nn::AddOp>()) {
      bool left = leadsToProduct(add.getLhs());
      if (scores.softcap != 0)
        return std::nullopt;
      scores.masks.push_back({left ? add.getRhs() : add.getLhs(), scores.scale,
                              rankOf(value) == 3});
      value = left ? add.getLhs() : add.getRhs();
      continue;
    }
    if (auto select = value.getDefiningOp<nn::SelectOp>()) {
      std::optional<double> hidden = matchSplat(select.getFalseValue());
      if (!hidden || *hidden * scores.scale > kHiddenScore ||
          scores.softcap != 0)
        return std::nullopt;
      // Of a query that sees nothing the largest of several numbers decides.
      if (!scores.fits(*hidden * scores.scale))
        return std::nullopt;
      scores.masks.push_back(
          {select.getCondition(), /*scale=*/1, rankOf(value) == 3});
      scores.hidden = *hidden * scores.scale;
      value = select.getTrueValue();
      continue;
    }
    double cap = 0, scale = 1;
    if (Value inner = matchSoftcap(value, cap, scale)) {
      if (scores.softcap != 0 || scores.scale != 1)
        return std::nullopt;
      scores.softcap = cap;
      scores.scale = scale;
      value = inner;
      continue;
    }
    Value scaled = stripScale(value, scores.scale);
    if (scaled == value)
      return std::nullopt;
    value = scaled;
  }
}

Value Heads::whole(nn::NNBuilder &b) const {
  ArrayRef<int64_t> shape = shapeOf(value).take_back(2);
  Value lifted =
      b.reshape(value, {first.batch, first.heads, shape[0], shape[1]});
  return swapped ? b.transpose(lifted, {0, 1, 3, 2}) : lifted;
}

Value Heads::seqFirst(nn::NNBuilder &b, Type element, int64_t width) const {
  return widen(b, b.transpose(b.cast(whole(b), element), kSwapHeads), width);
}

Heads readHeads(Value value, bool swapped, BatchHeads merged) {
  ArrayRef<int64_t> shape = shapeOf(value);
  Heads read{value, swapped,
             shape.size() == 4 ? BatchHeads{shape[0], shape[1]} : merged};
  read.value = stripScale(value, read.scale);
  auto transpose = read.value.getDefiningOp<nn::TransposeOp>();
  constexpr int64_t swapOfFour[] = {0, 1, 3, 2}, swapOfThree[] = {0, 2, 1};
  ArrayRef<int64_t> swap = shape.size() == 4 ? ArrayRef<int64_t>(swapOfFour)
                                             : ArrayRef<int64_t>(swapOfThree);
  if (transpose && transpose.getPermutation() == swap) {
    read.value = stripScale(transpose.getOperand(), read.scale);
    read.swapped = !swapped;
  }
  return read;
}

} // namespace shardonnx
