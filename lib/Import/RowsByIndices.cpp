// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is gathered by rows that a mask selects, and of them. See RowsOfMask.h.

#include "RowsOfMask.h"

#include "Subgraphs.h"

#include <onnx/onnx_pb.h>

using namespace llvm;

namespace shardonnx {

using Shape = std::vector<int64_t>;

/// Rows of the data by indices of each row, or the same places of each row.
bool RowTracer::visitGather(const ::onnx::NodeProto &node) {
  const Shape *data = known.shapeOf(node.input(0)),
              *indices = known.shapeOf(node.input(1));
  if (!data || !indices)
    return false;
  int64_t along = normalized(intAttribute(node, "axis", 0), data->size());
  const Rows *read = rowsOf(node.input(1));
  const Rows *whole = rowsOf(node.input(0));
  if (read && (!whole || (read->columns && along == whole->axis &&
                          isMaskOf(*read, node.input(0), along))))
    return set(node.output(0), {read->mask, along + read->axis});
  Rows result = *rowsOf(node.input(0));
  if (!onlyReads(node, 0) || along == result.axis)
    return false;
  const Shape *places = known.intsOf(node.input(1));
  if (result.columns && places && data->size() == 2) {
    Shape chosen;
    for (int64_t place : *places) {
      place = normalized(place, result.columns->size());
      if (place < 0 || place >= int64_t(result.columns->size()))
        return false;
      chosen.push_back((*result.columns)[place]);
    }
    result.columns = chosen;
  } else {
    result.columns.reset();
  }
  if (along < result.axis)
    result.axis += int64_t(indices->size()) - 1;
  return set(node.output(0), result);
}

bool RowTracer::visitGatherND(const ::onnx::NodeProto &node) {
  const Shape *indices = known.shapeOf(node.input(1));
  const Rows *read = rowsOf(node.input(1)), *data = rowsOf(node.input(0));
  if (!read || !indices || intAttribute(node, "batch_dims", 0))
    return false;
  bool own = data && data->axis == 0 && data->mask == read->mask &&
             beginsWithOwnNumber(node.input(1));
  if (data && !own &&
      !(read->columns && areIndices(node.input(1), read->columns->size()) &&
        isMaskOf(*read, node.input(0))))
    return false;
  if (read->axis + 1 == int64_t(indices->size()))
    return false;
  return set(node.output(0), {read->mask, read->axis});
}

/// Whether indices, [rows, columns], have the row's own number in column 0, and
/// none that counts rows in others.
bool RowTracer::beginsWithOwnNumber(StringRef indices) const {
  static const StringSet<> same = {"Cast", "Expand", "Identity", "Reshape",
                                   "Unsqueeze"};
  const ::onnx::NodeProto *node = known.producerOf(indices);
  const Shape *shape = known.shapeOf(indices);
  if (!node || !isOp(*node, "Concat") || !shape || shape->size() != 2 ||
      rowsOf(indices)->axis != 0 || !known.shapeOf(node->input(0)) ||
      known.shapeOf(node->input(0))->back() != 1 ||
      any_of(drop_begin(node->input()), [&](const std::string &other) {
        return amongRows.contains(other);
      }))
    return false;
  do
    node = known.producerOf(node->input(0));
  while (node && same.contains(node->op_type()));
  return node && isOp(*node, "Range") && rowsOf(node->output(0));
}

/// Elements of each row by indices of its own, or any by indices of rows.
bool RowTracer::visitGatherElements(const ::onnx::NodeProto &node) {
  const Rows *data = rowsOf(node.input(0)), *indices = rowsOf(node.input(1));
  const Shape *shape = known.shapeOf(node.input(0));
  if (!indices || !shape)
    return false;
  int64_t along = normalized(intAttribute(node, "axis", 0), shape->size());
  bool own = data && data->mask == indices->mask &&
             data->axis == indices->axis && along != indices->axis;
  return (data ? own : along == indices->axis) &&
         set(node.output(0), {indices->mask, indices->axis});
}

} // namespace shardonnx
