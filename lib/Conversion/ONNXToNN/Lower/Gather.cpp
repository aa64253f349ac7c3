// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers Gather and its kin: an embedding, a cut at known indices, or
// nn.gather.

#include "GridGather.h"
#include "Index.h"
#include "Positions.h"
#include "Rearrange.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"

using namespace mlir;

namespace shardonnx {
namespace {

/// Slices of a float tensor's first axis are rows of a table.
Value embed(Lowering &l, Value table, Value ids) {
  SmallVector<int64_t> slice(shapeOf(table).drop_front());
  int64_t rows = shapeOf(table)[0];
  int64_t width = ShapedType::getNumElements(slice);
  SmallVector<int64_t> flat(shapeOf(ids)), shape(shapeOf(ids));
  flat.push_back(width);
  shape.append(slice);
  Value result = nn::EmbeddingOp::create(
      l.builder, l.loc, RankedTensorType::get(flat, elementType(table)),
      l.reshape(table, {rows, width}), ids);
  return l.reshape(result, shape);
}

/// What is read at `row` is as it is, and gives the table no gradient
/// (torch.nn.Embedding's padding_idx).
Value stopAtRow(Lowering &l, Value read, Value ids, int64_t row) {
  SmallVector<int64_t> shape(shapeOf(ids));
  shape.resize(shapeOf(read).size(), 1);
  Value isRow =
      l.compare(nn::ComparePredicate::eq, l.reshape(ids, shape),
                l.constant(static_cast<double>(row), elementType(ids)));
  return l.select(isRow, l.unary<nn::StopGradientOp>(read), read);
}

bool isTable(Value data) { return shapeOf(data).size() >= 2 && isFloat(data); }

/// Indices with one more axis, that of the coordinates.
Value withCoordinates(Lowering &l, Value indices) {
  SmallVector<int64_t> shape(shapeOf(indices));
  shape.push_back(1);
  return l.reshape(indices, shape);
}

/// Known indices that count up by one are a slice.
std::optional<int64_t> contiguousStart(ArrayRef<int64_t> indices, int64_t dim) {
  if (indices.empty() || llvm::any_of(indices, [&](int64_t index) {
        return index < -dim || index >= dim;
      }))
    return std::nullopt;
  int64_t start = indices.front() < 0 ? indices.front() + dim : indices.front();
  for (auto [i, index] : llvm::enumerate(indices))
    if ((index < 0 ? index + dim : index) != start + static_cast<int64_t>(i))
      return std::nullopt;
  if (start < 0 || start + static_cast<int64_t>(indices.size()) > dim)
    return std::nullopt;
  return start;
}

/// Known indices of windows that slide along an axis, as those of F.unfold:
/// `first` + i * `down` + j * `right` in row i and column j.
struct Sliding {
  int64_t first, down, right, rows, columns;
};

std::optional<Sliding> slidingOf(const HostTensor &known, int64_t dim) {
  HostTensor::Dims shape(known.getShape());
  if (shape.size() != 2 || shape[0] < 2 || shape[1] < 2)
    return std::nullopt;
  SmallVector<int64_t> at = known.flattenInts();
  for (int64_t &index : at) {
    if (index < -dim || index >= dim)
      return std::nullopt;
    index += index < 0 ? dim : 0;
  }
  Sliding s{at[0], at[shape[1]] - at[0], at[1] - at[0], shape[0], shape[1]};
  for (int64_t i = 0; i < s.rows; ++i)
    for (int64_t j = 0; j < s.columns; ++j)
      if (at[i * s.columns + j] != s.first + i * s.down + j * s.right)
        return std::nullopt;
  if (s.down == 0 || s.right == 0)
    return std::nullopt;
  return s;
}

/// A part of the axis for each row of the indices, or for each column, where
/// these are fewer. Nothing where both are too many.
Value slide(Lowering &l, Value data, unsigned axis, const Sliding &s) {
  constexpr int64_t kMostParts = 64;
  bool byRows = s.rows <= s.columns;
  int64_t parts = byRows ? s.rows : s.columns;
  if (parts > kMostParts)
    return {};
  SmallVector<int64_t> shape(shapeOf(data));
  shape[axis] = byRows ? 1 : s.rows;
  shape.insert(shape.begin() + axis + 1, byRows ? s.columns : 1);
  SmallVector<Value> values;
  for (int64_t i = 0; i < parts; ++i)
    values.push_back(l.reshape(
        byRows
            ? stepAxis(l, data, axis, s.first + i * s.down, s.right, s.columns)
            : stepAxis(l, data, axis, s.first + i * s.right, s.down, s.rows),
        shape));
  return join(l, values, byRows ? axis : axis + 1);
}

/// Whether a row is among them that gets no gradient (stopAtRow).
bool readsPadding(onnx::NodeOp node, ArrayRef<int64_t> indices) {
  return node.getNodeAttr("padding_idx") &&
         llvm::is_contained(indices, node.getInt("padding_idx", 0));
}

LogicalResult lowerGather(Lowering &l, onnx::NodeOp node) {
  Value data = l.get(node.getInput(0));
  SmallVector<int64_t> shape(shapeOf(data));
  auto axis =
      normalizeAxis(node.getInt("axis", 0), static_cast<int64_t>(shape.size()));
  if (!axis)
    return l.unsupported(node, "its axis is out of range");
  if (const HostTensor *known = l.getConstant(node.getInput(1))) {
    // The batch reads the same rows, so one copy is cut and then broadcast.
    HostTensor compact = known->compact();
    SmallVector<int64_t> flat = compact.flattenInts();
    HostTensor::Dims some(compact.getShape()), all(known->getShape());
    auto start = contiguousStart(flat, shape[*axis]);
    if (start && !readsPadding(node, flat)) {
      Value part =
          l.slice(data, *axis, *start, static_cast<int64_t>(flat.size()));
      auto withIndices = [&](ArrayRef<int64_t> dims) {
        SmallVector<int64_t> full(shape);
        full.erase(full.begin() + *axis);
        full.insert(full.begin() + *axis, dims.begin(), dims.end());
        return full;
      };
      Value result = l.reshape(part, withIndices(some));
      l.set(node->getResult(0), l.broadcast(result, withIndices(all)));
      return success();
    }
    auto windows = slidingOf(*known, shape[*axis]);
    if (windows && !readsPadding(node, flat))
      if (Value value = slide(l, data, *axis, *windows)) {
        l.set(node->getResult(0), value);
        return success();
      }
    if (std::string why = describeOutside(node, flat, *axis, shape[*axis]);
        !why.empty())
      return l.wrong(node, why);
  }
  Value indices = l.get(node.getInput(1));
  if (!areIndices(indices))
    return l.unsupported(node, "its indices are no i32 or i64");
  if (*axis == 0 && isTable(data)) {
    if (std::string why = describeCounted(l, node, shape[0]); !why.empty())
      return l.wrong(node, why);
    Value rows = embed(l, data, indices);
    if (node.getNodeAttr("padding_idx"))
      rows = stopAtRow(l, rows, indices, node.getInt("padding_idx", 0));
    l.set(node->getResult(0), rows);
    return success();
  }
  auto axes = nn::IndexAxes::along(*axis, static_cast<int64_t>(shape.size()),
                                   rankOf(indices));
  l.set(node->getResult(0),
        nn::GatherOp::create(l.builder, l.loc, data,
                             withCoordinates(l, indices), axes.data, axes.index,
                             axes.indexed));
  return success();
}

LogicalResult lowerGatherElements(Lowering &l, onnx::NodeOp node) {
  Value data = l.get(node.getInput(0)), indices = l.get(node.getInput(1));
  int64_t rank = rankOf(data);
  auto axis = normalizeAxis(node.getInt("axis", 0), rank);
  if (!axis || !areIndices(indices) || rankOf(indices) != rank)
    return l.unsupported(node, "its axis or indices do not fit");
  for (int64_t i = 0; i < rank; ++i)
    if (i != *axis && shapeOf(indices)[i] > shapeOf(data)[i])
      return l.unsupported(node, "its indices are larger than the data");
  auto axes = nn::IndexAxes::elements(*axis, rank);
  l.set(node->getResult(0),
        nn::GatherOp::create(l.builder, l.loc, data,
                             withCoordinates(l, indices), axes.data, axes.index,
                             axes.indexed));
  return success();
}

LogicalResult lowerGatherND(Lowering &l, onnx::NodeOp node) {
  Value data = l.get(node.getInput(0));
  int64_t batch = node.getInt("batch_dims", 0);
  const HostTensor *known = l.getConstant(node.getInput(1));
  Value ranges = known && batch == 0 ? gatherGrid(l, data, *known) : Value();
  if (ranges) {
    l.set(node->getResult(0), ranges);
    return success();
  }
  Value indices = l.get(node.getInput(1));
  int64_t rank = rankOf(data);
  int64_t indexRank = rankOf(indices);
  int64_t coordinates = indexRank > 0 ? shapeOf(indices).back() : 0;
  if (!areIndices(indices) || batch < 0 || batch >= indexRank ||
      coordinates < 1 || batch + coordinates > rank)
    return l.unsupported(node, "its indices do not fit");
  for (int64_t i = 0; i < batch; ++i)
    if (shapeOf(indices)[i] != shapeOf(data)[i])
      return l.unsupported(node, "its batch axes do not fit");
  if (batch == 0 && coordinates == 1 && isTable(data)) {
    Value ids = l.reshape(indices, shapeOf(indices).drop_back());
    l.set(node->getResult(0), embed(l, data, ids));
    return success();
  }
  auto axes = nn::IndexAxes::slices(coordinates, batch, rank, indexRank);
  l.set(node->getResult(0),
        nn::GatherOp::create(l.builder, l.loc, data, indices, axes.data,
                             axes.index, axes.indexed));
  return success();
}

} // namespace

void addGatherHandlers(HandlerTable &table) {
  table["Gather"] = lowerGather;
  table["GatherElements"] = lowerGatherElements;
  table["GatherND"] = lowerGatherND;
}

} // namespace shardonnx
