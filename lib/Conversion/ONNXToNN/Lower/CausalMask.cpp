// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds, builds and matches causal masks.

#include "CausalMask.h"

#include "mlir/IR/Matchers.h"
#include "shardonnx/Dialect/NN/IR/NN.h"

using namespace mlir;

namespace shardonnx {

std::optional<CausalTensor> recognizeCausal(const HostTensor &tensor) {
  int64_t rank = tensor.getRank();
  if (rank < 2 || llvm::is_contained(tensor.getShape(), 0))
    return std::nullopt;
  for (int64_t axis = 0; axis < rank; ++axis)
    if (tensor.varies(axis) != (axis >= rank - 2))
      return std::nullopt;
  CausalTensor result;
  CausalMask &mask = result.mask;
  mask.rows = tensor.getShape()[rank - 2];
  mask.columns = tensor.getShape()[rank - 1];
  if (mask.columns < mask.rows)
    return std::nullopt;
  SmallVector<int64_t> index(rank, 0);
  auto at = [&](int64_t row, int64_t column) {
    index[rank - 2] = row;
    index[rank - 1] = column;
    return tensor.at(index);
  };
  // Same bits: NaN never occurs in a mask that this may recognise.
  result.visible = at(mask.rows - 1, mask.columns - 1);
  result.hidden = at(0, mask.columns - 1);
  if (result.visible.i == result.hidden.i)
    return std::nullopt;
  int64_t seen = 0;
  while (seen < mask.columns &&
         at(mask.rows - 1, mask.columns - 1 - seen).i == result.visible.i)
    ++seen;
  mask.window = seen == mask.columns ? 0 : seen;
  // Row 0 and column 0 meet every diagonal.
  bool byDiagonals = tensor.isDiagonal(rank - 2, rank - 1);
  for (int64_t row = 0; row < mask.rows; ++row) {
    int64_t last = row + mask.columns - mask.rows;
    int64_t end = byDiagonals && row > 0 ? 1 : mask.columns;
    for (int64_t column = 0; column < end; ++column) {
      bool visible =
          column <= last && (mask.window == 0 || column > last - mask.window);
      if (at(row, column).i != (visible ? result.visible.i : result.hidden.i))
        return std::nullopt;
    }
  }
  return result;
}

static Value iota(OpBuilder &builder, Location loc, ArrayRef<int64_t> shape,
                  int64_t axis) {
  return nn::IotaOp::create(builder, loc,
                            RankedTensorType::get(shape, builder.getI64Type()),
                            builder.getI64IntegerAttr(axis));
}

static Value shifted(OpBuilder &builder, Location loc, Value index,
                     int64_t by) {
  if (by == 0)
    return index;
  auto type = RankedTensorType::get({}, builder.getI64Type());
  Value constant =
      nn::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, by));
  return nn::AddOp::create(builder, loc, index.getType(), index, constant);
}

Value buildCausalMask(OpBuilder &builder, Location loc, const CausalMask &mask,
                      int64_t rank) {
  SmallVector<int64_t> shape(rank, 1), rowShape(rank, 1), columnShape(rank, 1);
  shape[rank - 2] = rowShape[rank - 2] = mask.rows;
  shape[rank - 1] = columnShape[rank - 1] = mask.columns;
  Type flags = RankedTensorType::get(shape, builder.getI1Type());
  Value row = iota(builder, loc, rowShape, rank - 2);
  Value column = iota(builder, loc, columnShape, rank - 1);
  Value last = shifted(builder, loc, row, mask.columns - mask.rows);
  Value result = nn::CompareOp::create(builder, loc, flags,
                                       nn::ComparePredicate::ge, last, column);
  if (mask.window == 0)
    return result;
  Value before =
      shifted(builder, loc, row, mask.columns - mask.rows - mask.window);
  Value inWindow = nn::CompareOp::create(
      builder, loc, flags, nn::ComparePredicate::lt, before, column);
  return nn::AndOp::create(builder, loc, flags, result, inWindow);
}

/// The axis and offset of an iota with a constant added.
static bool matchIndex(Value value, int64_t &axis, int64_t &offset) {
  offset = 0;
  if (auto add = value.getDefiningOp<nn::AddOp>()) {
    DenseElementsAttr attr;
    if (!matchPattern(add.getRhs(), m_Constant(&attr)) || !attr.isSplat() ||
        !isa<IntegerType>(attr.getElementType()))
      return false;
    offset = attr.getSplatValue<APInt>().getSExtValue();
    value = add.getLhs();
  }
  auto index = value.getDefiningOp<nn::IotaOp>();
  if (!index)
    return false;
  axis = index.getAxis();
  return true;
}

/// Matches `row + offset <predicate> column` over the last two axes.
static bool matchComparison(Value value, nn::ComparePredicate predicate,
                            int64_t &offset) {
  auto compare = value.getDefiningOp<nn::CompareOp>();
  if (!compare || compare.getPredicate() != predicate)
    return false;
  int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
  int64_t rowAxis = 0, columnAxis = 0, columnOffset = 0;
  return rank >= 2 && matchIndex(compare.getLhs(), rowAxis, offset) &&
         matchIndex(compare.getRhs(), columnAxis, columnOffset) &&
         rowAxis == rank - 2 && columnAxis == rank - 1 && columnOffset == 0;
}

std::optional<CausalMask> matchCausalMask(Value value) {
  while (true) {
    if (auto reshape = value.getDefiningOp<nn::ReshapeOp>())
      value = reshape.getOperand();
    else if (auto broadcast = value.getDefiningOp<nn::BroadcastOp>())
      value = broadcast.getOperand();
    else
      break;
  }
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getRank() < 2)
    return std::nullopt;
  CausalMask mask;
  mask.rows = type.getShape()[type.getRank() - 2];
  mask.columns = type.getShape().back();
  int64_t expected = mask.columns - mask.rows, offset = 0, start = 0;
  if (auto both = value.getDefiningOp<nn::AndOp>()) {
    if (!matchComparison(both.getRhs(), nn::ComparePredicate::lt, start))
      return std::nullopt;
    mask.window = expected - start;
    value = both.getLhs();
  }
  if (!matchComparison(value, nn::ComparePredicate::ge, offset) ||
      offset != expected || mask.window < 0)
    return std::nullopt;
  return mask;
}

} // namespace shardonnx
