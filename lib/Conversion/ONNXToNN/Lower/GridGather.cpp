// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "GridGather.h"

using namespace mlir;

namespace shardonnx {
namespace {

/// Which part of an axis of the data is read, and along which axis of the grid.
struct Range {
  int64_t start = 0, size = 1;
  std::optional<int64_t> gridAxis; // none: one index for all
};

/// The range that one coordinate of the grid counts through.
std::optional<Range> readRange(const HostTensor &coordinate, int64_t dim) {
  HostTensor known = coordinate.collapseUniformAxes();
  Range range;
  for (int64_t axis = 0; axis < known.getRank(); ++axis) {
    if (!known.varies(axis))
      continue;
    if (range.gridAxis)
      return std::nullopt;
    range.gridAxis = axis;
    range.size = known.getShape()[axis];
  }
  SmallVector<int64_t> indices = known.compact().flattenInts();
  for (int64_t &index : indices)
    index = index < 0 ? index + dim : index;
  range.start = indices.front();
  for (auto [i, index] : llvm::enumerate(indices))
    if (index != range.start + static_cast<int64_t>(i) || index < 0 ||
        index >= dim)
      return std::nullopt;
  return range;
}

std::optional<SmallVector<Range>> readGrid(const HostTensor &indices,
                                           ArrayRef<int64_t> shape) {
  int64_t last = indices.getRank() - 1;
  if (last < 0 || indices.getNumElements() == 0 ||
      indices.getShape()[last] > static_cast<int64_t>(shape.size()))
    return std::nullopt;
  ArrayRef<int64_t> outer = indices.getShape().drop_back();
  SmallVector<Range> grid;
  SmallVector<bool> taken(outer.size(), false);
  for (int64_t i = 0; i < indices.getShape()[last]; ++i) {
    auto range =
        readRange(indices.slice(last, i, 1, 1).reshape(outer), shape[i]);
    if (!range || (range->gridAxis && taken[*range->gridAxis]))
      return std::nullopt;
    if (range->gridAxis)
      taken[*range->gridAxis] = true;
    grid.push_back(*range);
  }
  return grid;
}

} // namespace

Value gatherGrid(Lowering &l, Value data, const HostTensor &indices) {
  SmallVector<int64_t> shape(shapeOf(data));
  auto grid = readGrid(indices, shape);
  if (!grid)
    return {};
  for (auto [axis, range] : llvm::enumerate(*grid))
    data = l.slice(data, axis, range.start, range.size);
  // The axes that the grid counts along, in its order; axes of size 1 that it
  // reads at one index; what is read whole.
  SmallVector<int64_t> permutation, small, full;
  ArrayRef<int64_t> outer = indices.getShape().drop_back();
  for (auto [axis, size] : llvm::enumerate(outer)) {
    auto *reader =
        llvm::find_if(*grid, [&, at = int64_t(axis)](const Range &r) {
          return r.gridAxis == at;
        });
    if (reader != grid->end())
      permutation.push_back(reader - grid->begin());
    small.push_back(reader != grid->end() ? size : 1);
    full.push_back(size);
  }
  for (auto [axis, range] : llvm::enumerate(*grid))
    if (!range.gridAxis)
      permutation.push_back(static_cast<int64_t>(axis));
  for (size_t axis = grid->size(); axis < shape.size(); ++axis) {
    permutation.push_back(static_cast<int64_t>(axis));
    small.push_back(shape[axis]);
    full.push_back(shape[axis]);
  }
  if (!llvm::is_sorted(permutation))
    data = l.transpose(data, permutation);
  return l.broadcast(l.reshape(data, small), full);
}

} // namespace shardonnx
