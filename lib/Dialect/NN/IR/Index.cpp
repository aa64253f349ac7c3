// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// gather, scatter and top_k: shape rules, verifiers, gradients.

#include "DefineOps.h"
#include "Evaluate.h"
#include "Shardable.h"
#include "mlir/IR/DialectImplementation.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

#include "shardonnx/Dialect/NN/IR/NNIndexOpsEnums.cpp.inc"
#define GET_OP_CLASSES
#include "shardonnx/Dialect/NN/IR/NNIndexOps.cpp.inc"

void nn::registerIndexOps(NNDialect &dialect) {
  registerAll<
#define GET_OP_LIST
#include "shardonnx/Dialect/NN/IR/NNIndexOps.cpp.inc"
      >(dialect);
}

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

IndexAxes IndexAxes::along(int64_t axis, int64_t dataRank, int64_t indexRank) {
  IndexAxes axes;
  auto walkData = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      axes.data.push_back(i);
      axes.index.push_back(-1);
    }
  };
  walkData(0, axis);
  for (int64_t i = 0; i < indexRank; ++i) {
    axes.data.push_back(-1);
    axes.index.push_back(i);
  }
  walkData(axis + 1, dataRank);
  axes.indexed = {axis};
  return axes;
}

IndexAxes IndexAxes::elements(int64_t axis, int64_t rank) {
  IndexAxes axes;
  for (int64_t i = 0; i < rank; ++i) {
    axes.data.push_back(i == axis ? -1 : i);
    axes.index.push_back(i);
  }
  axes.indexed = {axis};
  return axes;
}

IndexAxes IndexAxes::slices(int64_t coordinates, int64_t batchRank,
                            int64_t dataRank, int64_t indexRank) {
  IndexAxes axes;
  for (int64_t i = 0; i < indexRank - 1; ++i) {
    axes.data.push_back(i < batchRank ? i : -1);
    axes.index.push_back(i);
  }
  for (int64_t i = batchRank + coordinates; i < dataRank; ++i) {
    axes.data.push_back(i);
    axes.index.push_back(-1);
  }
  for (int64_t i = 0; i < coordinates; ++i)
    axes.indexed.push_back(batchRank + i);
  return axes;
}

/// Is every axis of `rank` in the lists once? -1 stands for none.
static bool coversOnce(int64_t rank, ArrayRef<int64_t> a,
                       ArrayRef<int64_t> b = {}) {
  SmallVector<int64_t> all;
  for (int64_t axis : llvm::concat<const int64_t>(a, b))
    if (axis != -1)
      all.push_back(axis);
  llvm::sort(all);
  return llvm::equal(all, llvm::seq<int64_t>(0, rank));
}

std::optional<SmallVector<int64_t>>
nn::gatheredShape(ArrayRef<int64_t> data, ArrayRef<int64_t> indices,
                  ArrayRef<int64_t> dataAxes, ArrayRef<int64_t> indexAxes,
                  ArrayRef<int64_t> indexedAxes) {
  if (indices.empty() || dataAxes.size() != indexAxes.size() ||
      indices.back() != int64_t(indexedAxes.size()) || indexedAxes.empty() ||
      llvm::is_contained(indexedAxes, -1) ||
      !coversOnce(data.size(), dataAxes, indexedAxes) ||
      !coversOnce(indices.size() - 1, indexAxes))
    return std::nullopt;
  SmallVector<int64_t> shape;
  for (auto [fromData, fromIndices] : llvm::zip(dataAxes, indexAxes)) {
    if (fromIndices < 0) {
      if (fromData < 0)
        return std::nullopt;
      shape.push_back(data[fromData]);
      continue;
    }
    shape.push_back(indices[fromIndices]);
    if (fromData >= 0 && shape.back() > data[fromData])
      return std::nullopt;
  }
  return shape;
}

//===----------------------------------------------------------------------===//
// gather
//===----------------------------------------------------------------------===//

NN_INFER(GatherOp) {
  Adaptor adaptor(operands, attributes, properties, regions);
  auto data = tensorType(operands[0]);
  auto shape = gatheredShape(data.getShape(), shapeOf(operands[1]),
                             adaptor.getDataAxes(), adaptor.getIndexAxes(),
                             adaptor.getIndexedAxes());
  if (!shape)
    return misfit(loc, "cannot gather from ", data, " at ",
                  operands[1].getType(), " along these axes");
  inferred.push_back(data.clone(*shape));
  return success();
}

/// The sum of `updates` at the indices, in f32 and then in `type`.
template <typename Op>
static Value scatterAdd(NNBuilder &b, Op op, Value updates,
                        RankedTensorType type) {
  auto wide = type.clone(b.builder.getF32Type());
  Value sum = ScatterOp::create(b.builder, b.loc, wide, Scatter::add,
                                op.getIndices(), b.f32(updates),
                                /*data=*/Value(), op.getDataAxes(),
                                op.getIndexAxes(), op.getIndexedAxes());
  return b.cast(sum, type.getElementType());
}

NN_VJP(GatherOp) {
  if (!needed[0])
    return success();
  NNBuilder b(builder, getLoc());
  auto type = tensorType(getData()).clone(gradientElementType(getData()));
  operandGrads[0] = scatterAdd(b, *this, resultGrads[0], type);
  return success();
}

//===----------------------------------------------------------------------===//
// scatter
//===----------------------------------------------------------------------===//

LogicalResult ScatterOp::verify() {
  auto shape = gatheredShape(shapeOf(getResult()), shapeOf(getIndices()),
                             getDataAxes(), getIndexAxes(), getIndexedAxes());
  if (!shape || ArrayRef<int64_t>(*shape) != shapeOf(getUpdates()))
    return emitOpError("cannot scatter ")
           << getUpdates().getType() << " at " << getIndices().getType()
           << " into " << getResult().getType() << " along these axes";
  if (elementType(getUpdates()) != elementType(getResult()))
    return emitOpError("updates and result differ in element type");
  if (getData() && getData().getType() != getResult().getType())
    return emitOpError("data and result differ in type");
  return success();
}

static Value gatherLike(NNBuilder &b, ScatterOp op, Value data) {
  return GatherOp::create(b.builder, b.loc, data, op.getIndices(),
                          op.getDataAxes(), op.getIndexAxes(),
                          op.getIndexedAxes());
}

/// A minimum or maximum shares its gradient among what equals it, as torch's
/// scatter_reduce does.
static void shareExtremum(NNBuilder &b, ScatterOp op, Value gradient,
                          Value &dataGrad, Value &updatesGrad) {
  auto equal = [&](Value x, Value y) {
    return b.cast(b.compare(ComparePredicate::eq, x, y), elementType(gradient));
  };
  Value result = op.getResult();
  Value hits = equal(op.getUpdates(), gatherLike(b, op, result));
  Value count = scatterAdd(b, op, hits, tensorType(gradient));
  Value own;
  if (op.getData()) {
    own = equal(op.getData(), result);
    count = b.add(count, own);
  }
  Value one = b.constant(1, elementType(gradient));
  Value share =
      b.div(gradient, MaxOp::create(b.builder, b.loc, count, one).getResult());
  if (own)
    dataGrad = b.mul(share, own);
  updatesGrad = b.mul(gatherLike(b, op, share), hits);
}

/// Each update's gradient is the product of the others: the result over it, or
/// where it is the only zero of its element, the product without it; 0 where
/// there are more zeros.
static Value productGrad(NNBuilder &b, ScatterOp op, Value gradient) {
  Value updates = op.getUpdates();
  Type element = elementType(updates);
  Value zero = b.constant(0, element), one = b.constant(1, element);
  Value isZero = b.compare(ComparePredicate::eq, updates, zero);
  Value ones = b.cast(isZero, elementType(gradient));
  Value zeros =
      gatherLike(b, op, scatterAdd(b, op, ones, tensorType(gradient)));
  Value single =
      b.binary<AndOp>(isZero, b.compare(ComparePredicate::eq, zeros,
                                        b.constant(1, elementType(zeros))));
  Value others = ScatterOp::create(
      b.builder, b.loc, op.getType(), op.getReduction(), op.getIndices(),
      b.select(single, one, updates), op.getData(), op.getDataAxes(),
      op.getIndexAxes(), op.getIndexedAxes());
  Value whole = gatherLike(b, op, b.mul(gradient, op.getResult()));
  return b.select(single, gatherLike(b, op, b.mul(gradient, others)),
                  b.div(whole, b.select(isZero, one, updates)));
}

NN_VJP(ScatterOp) {
  NNBuilder b(builder, getLoc());
  Value gradient = resultGrads[0], dataGrad, updatesGrad;
  auto scatterInto = [&](Value data, Value updates) -> Value {
    return ScatterOp::create(builder, getLoc(), data.getType(), getReduction(),
                             getIndices(), updates, data, getDataAxes(),
                             getIndexAxes(), getIndexedAxes());
  };
  switch (getReduction()) {
  case Scatter::none: {
    auto type = tensorType(getUpdates()).clone(elementType(gradient));
    dataGrad =
        scatterInto(gradient, b.broadcast(b.constant(0, elementType(gradient)),
                                          type.getShape()));
    updatesGrad = gatherLike(b, *this, gradient);
    break;
  }
  case Scatter::add:
    dataGrad = gradient;
    updatesGrad = gatherLike(b, *this, gradient);
    break;
  case Scatter::mul:
    dataGrad = scatterInto(gradient, getUpdates());
    if (needed[1])
      updatesGrad = productGrad(b, *this, gradient);
    break;
  case Scatter::min:
  case Scatter::max:
    shareExtremum(b, *this, gradient, dataGrad, updatesGrad);
    break;
  }
  if (needed[1])
    operandGrads[1] = updatesGrad;
  if (getData() && needed[2])
    operandGrads[2] = dataGrad;
  return success();
}

//===----------------------------------------------------------------------===//
// top_k
//===----------------------------------------------------------------------===//

NN_INFER(TopKOp) {
  Adaptor adaptor(operands, attributes, properties, regions);
  auto type = tensorType(operands[0]);
  int64_t axis = adaptor.getAxis(), k = adaptor.getK();
  if (axis < 0 || axis >= type.getRank() || k < 1 || k > type.getDimSize(axis))
    return misfit(loc, "cannot take ", k, " elements along axis ", axis, " of ",
                  type);
  SmallVector<int64_t> shape(type.getShape());
  shape[axis] = k;
  inferred.push_back(type.clone(shape));
  inferred.push_back(
      RankedTensorType::get(shape, IntegerType::get(context, 64)));
  return success();
}

NN_VJP(TopKOp) {
  if (!needed[0] || !resultGrads[0])
    return success();
  NNBuilder b(builder, getLoc());
  SmallVector<int64_t> shape(shapeOf(getIndices()));
  auto axes = IndexAxes::elements(getAxis(), shape.size());
  shape.push_back(1);
  Value sum = ScatterOp::create(
      builder, getLoc(), tensorType(getOperand()).clone(builder.getF32Type()),
      Scatter::add, b.reshape(getIndices(), shape), b.f32(resultGrads[0]),
      Value(), axes.data, axes.index, axes.indexed);
  operandGrads[0] = b.cast(sum, gradientElementType(getOperand()));
  return success();
}

//===----------------------------------------------------------------------===//
// On a mesh
//===----------------------------------------------------------------------===//

namespace {
struct ShardableTopK : ShardableModel<ShardableTopK, TopKOp> {
  static LogicalResult rule(TopKOp op, ShardingQuery &query);
};
} // namespace

LogicalResult ShardableTopK::rule(TopKOp op, ShardingQuery &query) {
  const Sharding &given = query.operands[0];
  if (given.dim == int64_t(op.getAxis()))
    return query.refuse("it chooses along the dimension that is split");
  query.needed[0] = given;
  llvm::fill(query.results, given);
  return success();
}

void nn::attachIndexShardings(MLIRContext &context) {
  TopKOp::attachInterface<ShardableTopK>(context);
}

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

namespace {
/// Where the elements of a gather or scatter lie in the data.
struct Places {
  Places(const HostTensor &indices, ArrayRef<int64_t> data,
         const IndexAxes &axes)
      : indices(indices), data(data), axes(axes), place(data.size()),
        at(indices.getRank()) {}

  /// The index into the data for a position; null where it is outside.
  const SmallVector<int64_t> *find(ArrayRef<int64_t> position) {
    for (auto [k, i] : llvm::enumerate(position)) {
      if (axes.data[k] >= 0)
        place[axes.data[k]] = i;
      if (axes.index[k] >= 0)
        at[axes.index[k]] = i;
    }
    for (auto [c, axis] : llvm::enumerate(axes.indexed)) {
      at.back() = int64_t(c);
      int64_t index = indices.at(at).i;
      place[axis] = index < 0 ? index + data[axis] : index;
      if (place[axis] < 0 || place[axis] >= data[axis])
        return nullptr;
    }
    return &place;
  }

private:
  const HostTensor &indices;
  ArrayRef<int64_t> data;
  const IndexAxes &axes;
  SmallVector<int64_t> place, at;
};

template <typename Op> IndexAxes axesOf(Op op) {
  IndexAxes axes;
  axes.data.assign(op.getDataAxes().begin(), op.getDataAxes().end());
  axes.index.assign(op.getIndexAxes().begin(), op.getIndexAxes().end());
  axes.indexed.assign(op.getIndexedAxes().begin(), op.getIndexedAxes().end());
  return axes;
}
} // namespace

// Axes along which neither data nor indices vary are gathered once.
LogicalResult nn::evaluateGather(Operation *op, Interpreter &interpreter,
                                 const HostTensor &data,
                                 const HostTensor &indices,
                                 const IndexAxes &axes) {
  Value result = op->getResult(0);
  ArrayRef<int64_t> full = shapeOf(result);
  HostTensor::Dims stored(full);
  for (auto [size, fromData, fromIndices] :
       llvm::zip(stored, axes.data, axes.index))
    if ((fromData < 0 || !data.varies(fromData)) &&
        (fromIndices < 0 || !indices.varies(fromIndices)))
      size = std::min<int64_t>(size, 1);
  if (!interpreter.allowsElements(op, stored))
    return failure();
  std::vector<Scalar> values;
  Places places(indices, data.getShape(), axes);
  bool inside = true;
  forEachIndex(stored, [&](ArrayRef<int64_t> position) {
    const SmallVector<int64_t> *place = places.find(position);
    inside &= place != nullptr;
    values.push_back(place ? data.at(*place) : ofInt(0));
  });
  if (!inside)
    return interpreter.refuse(op, "an index is outside of its axis");
  return interpreter.set(
      result, HostTensor::dense(stored, elementType(result), std::move(values))
                  .broadcast(full)
                  .collapseUniformAxes());
}

NN_EVALUATE(GatherOp) {
  return evaluateGather(*this, interpreter, interpreter.get(getData()),
                        interpreter.get(getIndices()), axesOf(*this));
}

static Scalar combine(Scatter reduction, Scalar a, Scalar b,
                      const Arithmetic &type) {
  switch (reduction) {
  case Scatter::none:
    return b;
  case Scatter::add:
    return type.add(a, b);
  case Scatter::mul:
    return type.multiply(a, b);
  case Scatter::min:
    return type.min(a, b);
  case Scatter::max:
    return type.max(a, b);
  }
  llvm_unreachable("five reductions");
}

NN_EVALUATE(ScatterOp) {
  if (!interpreter.allows(*this))
    return failure();
  Arithmetic type = interpreter.arithmetic(getResult());
  Elements result(shapeOf(getResult()), type.zero());
  if (const HostTensor *data = interpreter.find(getData()))
    result = Elements(*data);
  Elements updates(interpreter.get(getUpdates()));
  IndexAxes axes = axesOf(*this);
  Places places(interpreter.get(getIndices()), result.shape, axes);
  bool inside = true;
  forEachIndex(updates.shape, [&](ArrayRef<int64_t> position) {
    const SmallVector<int64_t> *place = places.find(position);
    inside &= place != nullptr;
    if (!place)
      return;
    Scalar &element = result.at(*place);
    element = combine(getReduction(), element, updates.at(position), type);
  });
  if (!inside)
    return interpreter.refuse(*this, "an index is outside of its axis");
  return interpreter.set(getResult(), std::move(result.values));
}

// NaN is the largest of all.
NN_EVALUATE(TopKOp) {
  if (!interpreter.allows(*this))
    return failure();
  Arithmetic type = interpreter.arithmetic(getOperand());
  auto isLess = [&](Scalar a, Scalar b) {
    return type.isNaN(b) ? !type.isNaN(a) : type.compare(a, b) == -1;
  };
  Elements x(interpreter.get(getOperand())),
      values(shapeOf(getValues()), type.zero()),
      indices(shapeOf(getIndices()), ofInt(0));
  int64_t axis = getAxis(), k = getK();
  SmallVector<int64_t> lines(x.shape);
  lines[axis] = 1;
  forEachIndex(lines, [&](ArrayRef<int64_t> line) {
    SmallVector<int64_t> at(line);
    std::vector<Scalar> elements;
    for (at[axis] = 0; at[axis] < x.shape[axis]; ++at[axis])
      elements.push_back(x.at(at));
    auto order = llvm::to_vector(llvm::seq<int64_t>(0, elements.size()));
    llvm::sort(order, [&](int64_t a, int64_t b) {
      Scalar x = elements[a], y = elements[b];
      if (isLess(x, y) || isLess(y, x))
        return isLess(x, y) == getSmallest();
      return (a < b) != getLastFirst();
    });
    for (at[axis] = 0; at[axis] < k; ++at[axis]) {
      values.at(at) = elements[order[at[axis]]];
      indices.at(at).i = order[at[axis]];
    }
  });
  (void)interpreter.set(getIndices(), std::move(indices.values));
  return interpreter.set(getValues(), std::move(values.values));
}
