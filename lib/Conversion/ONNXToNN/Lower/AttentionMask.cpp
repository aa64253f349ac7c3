// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX counts a query's position from the first key: query i stands at
// i + past, or, with an outer cache, at i + length - queries. nn.attention
// counts from the last. Where the two agree, nothing has to be stored.

#include "AttentionMask.h"

#include "CausalMask.h"

#include <limits>

using namespace mlir;

namespace shardonnx {
namespace {

/// The attributes that say which keys a query sees.
struct Sight {
  explicit Sight(onnx::NodeOp node)
      : causal(node.getInt("is_causal", 0) != 0),
        left(node.getInt("left_window_size", -1)),
        right(node.getInt("right_window_size", -1)) {}

  bool limits() const { return causal || left >= 0 || right >= 0; }
  /// Whether a query sees the key that lies `distance` before it.
  bool sees(int64_t distance) const {
    return (!causal || distance >= 0) && (left < 0 || distance <= left) &&
           (right < 0 || -distance <= right);
  }

  bool causal;
  int64_t left, right;
};

SmallVector<int64_t> countUp(int64_t start, int64_t size) {
  return llvm::to_vector(llvm::seq(start, start + size));
}

/// i1 [batch or 1, 1, queries, keys]; none where it would be too large.
std::optional<HostTensor> visibleKeys(const Sight &sight,
                                      const AttentionSizes &sizes,
                                      ArrayRef<int64_t> lengths, Type i64) {
  auto batch = static_cast<int64_t>(std::max<size_t>(lengths.size(), 1));
  SmallVector<int64_t> places;
  for (int64_t b = 0; b < batch; ++b)
    llvm::append_range(
        places,
        countUp(lengths.empty() ? sizes.past : lengths[b] - sizes.queries,
                sizes.queries));
  HostTensor rows = HostTensor::ints({batch, 1, sizes.queries, 1}, places, i64);
  HostTensor columns =
      HostTensor::ints({1, 1, 1, sizes.keys}, countUp(0, sizes.keys), i64);
  auto minus = [](ArrayRef<Scalar> v) {
    Scalar result;
    result.i = v[0].i - v[1].i;
    return result;
  };
  std::optional<HostTensor> distance =
      HostTensor::indexDifference(rows, columns);
  if (!distance)
    distance = HostTensor::map({rows, columns}, i64, minus);
  if (!distance)
    return std::nullopt;
  Type i1 = IntegerType::get(i64.getContext(), 1);
  auto visible =
      HostTensor::map({*distance}, i1, [&](ArrayRef<Scalar> v) -> Scalar {
        Scalar result;
        result.i = sight.sees(v[0].i);
        return result;
      });
  if (!visible || lengths.empty())
    return visible;
  HostTensor ends = HostTensor::ints({batch, 1, 1, 1}, lengths, i64);
  return HostTensor::map({*visible, columns, ends}, i1,
                         [](ArrayRef<Scalar> v) -> Scalar {
                           Scalar result;
                           result.i = v[0].i && v[1].i < v[2].i;
                           return result;
                         });
}

/// The node's own mask, of rank 4; keys that it does not name are hidden.
Value ownMask(Lowering &l, Value input, int64_t keys) {
  ArrayRef<int64_t> dims = l.getShape(input);
  int64_t missing = dims.empty() ? 0 : keys - dims.back();
  Value mask = missing > 0 ? l.get(input) : l.getBroadcastable(input);
  bool added = isFloat(mask);
  if (added)
    mask = l.cast(mask, l.builder.getF32Type());
  SmallVector<int64_t> shape(shapeOf(mask));
  while (shape.size() < 4)
    shape.insert(shape.begin(), 1);
  mask = l.reshape(mask, shape);
  if (missing <= 0)
    return mask;
  shape.back() = missing;
  Value rest =
      l.constant(added ? -std::numeric_limits<double>::infinity() : 0.0,
                 elementType(mask), shape);
  shape.back() = keys;
  return nn::ConcatOp::create(
      l.builder, l.loc, RankedTensorType::get(shape, elementType(mask)),
      ValueRange{mask, rest}, l.builder.getI64IntegerAttr(3));
}

/// A mask of either kind, and one of booleans.
Value both(Lowering &l, Value mask, Value visible) {
  if (!mask || !visible)
    return mask ? mask : visible;
  if (!isFloat(mask))
    return l.binary<nn::AndOp>(mask, visible);
  Value hidden = l.constant(-std::numeric_limits<double>::infinity());
  return l.add(mask, l.select(visible, l.constant(0), hidden));
}

} // namespace

std::optional<AttentionMask> buildAttentionMask(Lowering &l, onnx::NodeOp node,
                                                const AttentionSizes &sizes) {
  AttentionMask result;
  if (Value input = node.getInput(3))
    result.value = ownMask(l, input, sizes.keys);
  Sight sight(node);
  SmallVector<int64_t> lengths;
  if (Value input = node.getInput(6)) {
    if (!l.getInts(input, lengths))
      return l.unsupported(node, "its nonpad_kv_seqlen depends on data");
  } else if (!sight.limits()) {
    return result;
  } else if ((sight.causal || sight.right == 0) &&
             sizes.past == sizes.keys - sizes.queries) {
    result.causal = true;
    result.window = sight.left + 1;
    return result;
  }
  auto visible = visibleKeys(sight, sizes, lengths, l.builder.getI64Type());
  if (!visible)
    return l.unsupported(node, "its window makes too large a mask");
  result.value = both(l, result.value, l.constant(*visible));
  return result;
}

Value AttentionMask::whole(Lowering &l, const AttentionSizes &sizes) const {
  if (!causal)
    return value;
  CausalMask rows{sizes.queries, sizes.keys, window};
  return both(l, value, buildCausalMask(l.builder, l.loc, rows, 4));
}

} // namespace shardonnx
