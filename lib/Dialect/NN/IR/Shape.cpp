// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that move elements: shape rules, folders, gradients.

#include "DefineOps.h"
#include "Evaluate.h"
#include "Shardable.h"
#include "shardonnx/Dialect/NN/IR/JoinedParameters.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"
#include "shardonnx/runtime/MeshABI.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

/// The splat constant of another shape, or nothing.
static OpFoldResult reshapeSplat(Attribute operand, Type type) {
  auto elements = dyn_cast_or_null<DenseElementsAttr>(operand);
  if (!elements || !elements.isSplat())
    return {};
  return elements.resizeSplat(cast<ShapedType>(type));
}

//===----------------------------------------------------------------------===//
// reshape
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  auto from = tensorType(getOperand()), to = tensorType(getResult());
  if (from.getElementType() != to.getElementType() ||
      from.getNumElements() != to.getNumElements())
    return emitOpError("keeps elements and their type, but goes from ")
           << from << " to " << to;
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  if (auto inner = getOperand().getDefiningOp<ReshapeOp>()) {
    if (inner.getOperand().getType() == getType())
      return inner.getOperand();
    getOperandMutable().assign(inner.getOperand());
    return getResult();
  }
  if (auto elements = dyn_cast_or_null<DenseElementsAttr>(adaptor.getOperand()))
    return elements.reshape(getType());
  return {};
}

NN_VJP(ReshapeOp) {
  operandGrads[0] = NNBuilder(builder, getLoc())
                        .reshape(resultGrads[0], shapeOf(getOperand()));
  return success();
}

//===----------------------------------------------------------------------===//
// transpose
//===----------------------------------------------------------------------===//

NN_INFER(TransposeOp) {
  Adaptor adaptor(operands, attributes, properties, regions);
  ArrayRef<int64_t> permutation = adaptor.getPermutation();
  auto type = tensorType(operands[0]);
  SmallVector<int64_t> sorted(permutation), shape;
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, type.getRank())))
    return misfit(loc, "[", permutation, "] is no permutation of the axes of ",
                  type);
  for (int64_t axis : permutation)
    shape.push_back(type.getDimSize(axis));
  inferred.push_back(type.clone(shape));
  return success();
}

static bool isIdentity(ArrayRef<int64_t> permutation) {
  return llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size()));
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (isIdentity(getPermutation()))
    return getOperand();
  if (auto inner = getOperand().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> both;
    for (int64_t axis : getPermutation())
      both.push_back(inner.getPermutation()[axis]);
    if (isIdentity(both))
      return inner.getOperand();
    getOperandMutable().assign(inner.getOperand());
    setPermutation(both);
    return getResult();
  }
  return reshapeSplat(adaptor.getOperand(), getType());
}

NN_VJP(TransposeOp) {
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [i, axis] : llvm::enumerate(getPermutation()))
    inverse[axis] = i;
  operandGrads[0] =
      NNBuilder(builder, getLoc()).transpose(resultGrads[0], inverse);
  return success();
}

//===----------------------------------------------------------------------===//
// broadcast
//===----------------------------------------------------------------------===//

LogicalResult BroadcastOp::verify() {
  if (elementType(getOperand()) != elementType(getResult()) ||
      !broadcastsTo(shapeOf(getOperand()), shapeOf(getResult())))
    return emitOpError("cannot broadcast ")
           << getOperand().getType() << " to " << getType();
  return success();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  return reshapeSplat(adaptor.getOperand(), getType());
}

NN_VJP(BroadcastOp) {
  operandGrads[0] =
      NNBuilder(builder, getLoc()).gradientFor(getOperand(), resultGrads[0]);
  return success();
}

//===----------------------------------------------------------------------===//
// slice, concat, pad
//===----------------------------------------------------------------------===//

NN_INFER(SliceOp) {
  Adaptor adaptor(operands, attributes, properties, regions);
  auto type = tensorType(operands[0]);
  ArrayRef<int64_t> offsets = adaptor.getOffsets(), sizes = adaptor.getSizes();
  size_t rank = type.getRank();
  if (offsets.size() != rank || sizes.size() != rank)
    return misfit(loc, "needs one offset and size for each axis of ", type);
  for (auto [offset, size, dim] : llvm::zip(offsets, sizes, type.getShape()))
    if (offset < 0 || size < 0 || size > dim - offset)
      return misfit(loc, "takes ", size, " elements from ", offset,
                    " on of an axis of ", dim);
  inferred.push_back(type.clone(sizes));
  return success();
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  if (auto inner = getOperand().getDefiningOp<SliceOp>()) {
    SmallVector<int64_t> offsets(getOffsets());
    for (auto [offset, base] : llvm::zip(offsets, inner.getOffsets()))
      offset += base;
    setOffsets(offsets);
    getOperandMutable().assign(inner.getOperand());
    return getResult();
  }
  return reshapeSplat(adaptor.getOperand(), getType());
}

NN_VJP(SliceOp) {
  SmallVector<int64_t> high;
  for (auto [dim, offset, size] :
       llvm::zip(shapeOf(getOperand()), getOffsets(), getSizes()))
    high.push_back(dim - offset - size);
  operandGrads[0] =
      PadOp::create(builder, getLoc(), resultGrads[0], getOffsets(), high);
  return success();
}

NN_INFER(ConcatOp) {
  Adaptor adaptor(operands, attributes, properties, regions);
  if (operands.empty())
    return misfit(loc, "needs an input");
  auto first = tensorType(operands[0]);
  int64_t axis = adaptor.getAxis();
  if (axis < 0 || axis >= first.getRank())
    return misfit(loc, "axis ", axis, " is outside rank ", first.getRank());
  SmallVector<int64_t> shape(first.getShape());
  for (Value input : operands.drop_front()) {
    auto type = tensorType(input);
    SmallVector<int64_t> expected(shape);
    if (type.getRank() == first.getRank())
      expected[axis] = type.getDimSize(axis);
    if (type != first.clone(expected))
      return misfit(loc, "cannot join ", type, " to ", first, " along axis ",
                    axis);
    shape[axis] += type.getDimSize(axis);
  }
  inferred.push_back(first.clone(shape));
  return success();
}

NN_VJP(ConcatOp) {
  NNBuilder b(builder, getLoc());
  int64_t axis = getAxis(), offset = 0;
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    int64_t size = shapeOf(input)[axis];
    if (needed[i])
      operandGrads[i] = b.slice(resultGrads[0], axis, offset, size);
    offset += size;
  }
  return success();
}

bool nn::joinsParameters(Operation *op) {
  auto concat = dyn_cast<ConcatOp>(op);
  return concat && concat.getAxis() == 0 && concat.getInputs().size() > 1 &&
         llvm::all_of(concat.getInputs(), [](Value input) {
           return input.getDefiningOp<GetOp>() != nullptr;
         });
}

/// A slice that takes rows as they are; null if `op` is something else.
static SliceOp sliceOfRows(Operation *op) {
  auto slice = dyn_cast_or_null<SliceOp>(op);
  if (!slice || slice.getSizes().empty() ||
      slice.getSizes().drop_front() != shapeOf(slice.getOperand()).drop_front())
    return nullptr;
  return slice;
}

Value nn::wholeOfRows(Value part) {
  SliceOp slice = sliceOfRows(part.getDefiningOp());
  if (!slice ||
      llvm::any_of(slice.getOperand().getUsers(),
                   [](Operation *user) { return !sliceOfRows(user); }))
    return nullptr;
  return slice.getOperand();
}

NN_INFER(PadOp) {
  Adaptor adaptor(operands, attributes, properties, regions);
  auto type = tensorType(operands[0]);
  ArrayRef<int64_t> low = adaptor.getLow(), high = adaptor.getHigh();
  size_t rank = type.getRank();
  if (low.size() != rank || high.size() != rank)
    return misfit(loc, "needs low and high for each axis of ", type);
  SmallVector<int64_t> shape(type.getShape());
  for (auto [size, before, after] : llvm::zip(shape, low, high)) {
    if (before < 0 || after < 0)
      return misfit(loc, "cannot pad by a negative number");
    size += before + after;
  }
  inferred.push_back(type.clone(shape));
  return success();
}

NN_VJP(PadOp) {
  operandGrads[0] = SliceOp::create(builder, getLoc(), resultGrads[0], getLow(),
                                    shapeOf(getOperand()));
  return success();
}

//===----------------------------------------------------------------------===//
// On a mesh
//===----------------------------------------------------------------------===//

namespace {
struct ShardableReshape : ShardableModel<ShardableReshape, ReshapeOp> {
  static LogicalResult rule(ReshapeOp op, ShardingQuery &query);
};
struct ShardableTranspose : ShardableModel<ShardableTranspose, TransposeOp> {
  static LogicalResult rule(TransposeOp op, ShardingQuery &query);
};
struct ShardableBroadcast : ShardableModel<ShardableBroadcast, BroadcastOp> {
  static LogicalResult rule(BroadcastOp op, ShardingQuery &query) {
    return shardElementwise(op, query);
  }
};
struct ShardableSlice : ShardableModel<ShardableSlice, SliceOp> {
  static LogicalResult rule(SliceOp op, ShardingQuery &query);
  void makeLocal(Operation *op, const ShardingQuery &query) const;
};
struct ShardableConcat : ShardableModel<ShardableConcat, ConcatOp> {
  static LogicalResult rule(ConcatOp op, ShardingQuery &query);
};
struct ShardablePad : ShardableModel<ShardablePad, PadOp> {
  static LogicalResult rule(PadOp op, ShardingQuery &query);
};
} // namespace

// Where a dimension becomes several, the first of which the ranks do not divide
// (query, key and value of a packed projection), each of its indices may be a
// section.
LogicalResult ShardableReshape::rule(ReshapeOp op, ShardingQuery &query) {
  const Sharding &given = query.operands[0];
  ArrayRef<int64_t> from = shapeOf(op.getOperand()), to = shapeOf(op);
  query.needed[0] = given;
  if (std::optional<Sharding> result = reshaped(from, to, given, query.parts)) {
    query.results[0] = *result;
    return success();
  }
  int64_t before = 1, reached = 1;
  for (int64_t size : from.take_front(given.dim))
    before *= size;
  for (int64_t size : to) {
    bool finer = int64_t(given.sections.size()) < size;
    if (reached == before && finer && size <= SHX_MAX_SECTIONS &&
        given.size() % size == 0 && size < given.size()) {
      SmallVector<int64_t> ends;
      for (int64_t end = 1; end < size; ++end)
        ends.push_back(given.size() / size * end);
      return query.refine(0, ends);
    }
    reached *= size;
  }
  return query.refuse("a reshape mixes the dimension that is split with others "
                      "that the ranks do not divide");
}

LogicalResult ShardableTranspose::rule(TransposeOp op, ShardingQuery &query) {
  const Sharding &given = query.operands[0];
  query.needed[0] = given;
  query.results[0] = given.along(llvm::find(op.getPermutation(), given.dim) -
                                 op.getPermutation().begin());
  return success();
}

/// The sections that a slice takes whole: how many come before them, and how
/// many there are; none where it cuts one.
static std::pair<size_t, size_t> sectionsWithin(ArrayRef<int64_t> sections,
                                                int64_t offset, int64_t size) {
  size_t before = 0, count = 0;
  for (; before < sections.size() && offset > 0; ++before)
    offset -= sections[before];
  if (offset != 0)
    return {0, 0};
  for (; before + count < sections.size() && size > 0; ++count)
    size -= sections[before + count];
  return {before, size == 0 ? count : 0};
}

LogicalResult ShardableSlice::rule(SliceOp op, ShardingQuery &query) {
  const Sharding &given = query.operands[0];
  int64_t offset = op.getOffsets()[given.dim], size = op.getSizes()[given.dim];
  auto [before, count] = sectionsWithin(given.sections, offset, size);
  if (count == 0)
    return query.refine(0, {offset, offset + size});
  if (given.zigzag && (before % 2 != 0 || count % 2 != 0))
    return query.refuse("it takes half of a sequence");
  query.needed[0] = given;
  query.results[0] = given;
  auto begin = given.sections.begin() + before;
  query.results[0].sections.assign(begin, begin + count);
  return success();
}

// A rank's part begins with its parts of the sections before.
void ShardableSlice::makeLocal(Operation *op,
                               const ShardingQuery &query) const {
  auto slice = cast<SliceOp>(op);
  int64_t dim = query.operands[0].dim;
  SmallVector<int64_t> offsets(slice.getOffsets()), sizes(slice.getSizes());
  offsets[dim] /= query.parts;
  sizes[dim] /= query.parts;
  slice.setOffsets(offsets);
  slice.setSizes(sizes);
}

LogicalResult ShardableConcat::rule(ConcatOp op, ShardingQuery &query) {
  const Sharding &given = query.operands[query.splitOperand()];
  if (given.dim == int64_t(op.getAxis()))
    return query.refuse("it joins along the dimension that is split");
  llvm::fill(query.needed, given);
  query.results[0] = given;
  return success();
}

LogicalResult ShardablePad::rule(PadOp op, ShardingQuery &query) {
  const Sharding &given = query.operands[0];
  if (op.getLow()[given.dim] != 0 || op.getHigh()[given.dim] != 0)
    return query.refuse("it pads the dimension that is split");
  query.needed[0] = given;
  query.results[0] = given;
  return success();
}

void nn::attachShapeShardings(MLIRContext &context) {
  ReshapeOp::attachInterface<ShardableReshape>(context);
  TransposeOp::attachInterface<ShardableTranspose>(context);
  BroadcastOp::attachInterface<ShardableBroadcast>(context);
  SliceOp::attachInterface<ShardableSlice>(context);
  ConcatOp::attachInterface<ShardableConcat>(context);
  PadOp::attachInterface<ShardablePad>(context);
}

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

NN_EVALUATE(ReshapeOp) {
  const HostTensor &x = interpreter.get(getOperand());
  if (!interpreter.allowsReshape(*this, x, shapeOf(getResult())))
    return failure();
  return interpreter.set(getResult(), x.reshape(shapeOf(getResult())));
}

NN_EVALUATE(TransposeOp) {
  return interpreter.set(
      getResult(), interpreter.get(getOperand()).transpose(getPermutation()));
}

NN_EVALUATE(BroadcastOp) {
  return interpreter.set(
      getResult(),
      interpreter.get(getOperand()).broadcast(shapeOf(getResult())));
}

NN_EVALUATE(SliceOp) {
  HostTensor result = interpreter.get(getOperand());
  for (auto [axis, offset, size] : llvm::enumerate(getOffsets(), getSizes()))
    result = result.slice(axis, offset, /*step=*/1, size);
  return interpreter.set(getResult(), result);
}

/// Copies `part` into `whole` from `offset` along an axis on.
static void copyTo(Elements &whole, const HostTensor &part, int64_t axis,
                   int64_t offset) {
  int64_t inner = 1, outer = 1;
  for (auto [i, size] : llvm::enumerate(whole.shape))
    if (int64_t(i) != axis)
      (int64_t(i) < axis ? outer : inner) *= size;
  int64_t width = part.getShape()[axis] * inner,
          length = whole.shape[axis] * inner;
  std::vector<Scalar> elements = part.flatten();
  for (int64_t o = 0; o < outer; ++o)
    std::copy_n(elements.begin() + o * width, width,
                whole.values.begin() + o * length + offset * inner);
}

// Axes along which no input varies are joined once.
NN_EVALUATE(ConcatOp) {
  int64_t axis = getAxis(), offset = 0;
  ArrayRef<int64_t> full = shapeOf(getResult());
  HostTensor::Dims stored(full);
  for (int64_t i = 0; i < int64_t(stored.size()); ++i)
    if (i != axis && llvm::none_of(getInputs(), [&](Value input) {
          return interpreter.get(input).varies(i);
        }))
      stored[i] = std::min<int64_t>(stored[i], 1);
  if (!interpreter.allowsElements(*this, stored))
    return failure();
  Elements whole(stored, ofInt(0));
  for (Value input : getInputs()) {
    HostTensor part = interpreter.get(input);
    for (auto [i, size] : llvm::enumerate(stored))
      if (int64_t(i) != axis)
        part = part.slice(i, 0, 1, size);
    copyTo(whole, part, axis, offset);
    offset += part.getShape()[axis];
  }
  return interpreter.set(getResult(),
                         HostTensor::dense(stored, elementType(getResult()),
                                           std::move(whole.values))
                             .broadcast(full));
}

NN_EVALUATE(PadOp) {
  if (!interpreter.allows(*this))
    return failure();
  HostTensor x = interpreter.get(getOperand());
  Type type = elementType(getResult());
  for (auto [axis, low, high] : llvm::enumerate(getLow(), getHigh())) {
    if (low == 0 && high == 0)
      continue;
    HostTensor::Dims shape(x.getShape());
    shape[axis] += low + high;
    Elements whole(shape, interpreter.arithmetic(type).zero());
    copyTo(whole, x, axis, low);
    x = HostTensor::dense(shape, type, std::move(whole.values));
  }
  return interpreter.set(getResult(), x);
}
