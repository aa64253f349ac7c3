// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products and embedding: verifiers, gradients, FLOPs.

#include "DefineOps.h"
#include "Evaluate.h"
#include "Lookup.h"
#include "Shardable.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

//===----------------------------------------------------------------------===//
// matmul
//===----------------------------------------------------------------------===//

namespace {
/// The sizes of a product: op(lhs) [lead, m, k], op(rhs) [lead, k, n].
struct ProductShape {
  int64_t m, k, n;
  SmallVector<int64_t> lead;
};
} // namespace

/// The sizes, or nothing where the operands do not fit each other.
static std::optional<ProductShape>
productShape(Value lhs, Value rhs, bool transposeLhs, bool transposeRhs) {
  ArrayRef<int64_t> a = shapeOf(lhs), b = shapeOf(rhs);
  if (a.size() < 2 || b.size() < 2)
    return std::nullopt;
  ProductShape shape;
  shape.m = a[a.size() - (transposeLhs ? 1 : 2)];
  shape.k = a[a.size() - (transposeLhs ? 2 : 1)];
  shape.n = b[b.size() - (transposeRhs ? 2 : 1)];
  FailureOr<SmallVector<int64_t>> lead =
      broadcastShapes(a.drop_back(2), b.drop_back(2));
  if (b[b.size() - (transposeRhs ? 1 : 2)] != shape.k || failed(lead))
    return std::nullopt;
  shape.lead = *lead;
  return shape;
}

void MatmulOp::build(OpBuilder &builder, OperationState &state, Value lhs,
                     Value rhs, bool transposeLhs, bool transposeRhs,
                     Type element) {
  std::optional<ProductShape> product =
      productShape(lhs, rhs, transposeLhs, transposeRhs);
  if (!product)
    (void)misfit(state.location,
                 "operands do not fit each other: ", lhs.getType(), " and ",
                 rhs.getType());
  assert(product && "operands of a matmul do not fit each other");
  SmallVector<int64_t> shape = product->lead;
  shape.append({product->m, product->n});
  auto type =
      RankedTensorType::get(shape, element ? element : elementType(lhs));
  build(builder, state, type, lhs, rhs, transposeLhs, transposeRhs);
}

template <typename Product> static LogicalResult verifyProduct(Product op) {
  if (elementType(op.getLhs()) != elementType(op.getRhs()))
    return op.emitOpError("operands differ in element type: ")
           << elementType(op.getLhs()) << " and " << elementType(op.getRhs());
  std::optional<ProductShape> product = productShape(
      op.getLhs(), op.getRhs(), op.getTransposeLhs(), op.getTransposeRhs());
  if (!product)
    return op.emitOpError("operands do not fit each other: ")
           << op.getLhs().getType() << " and " << op.getRhs().getType();
  SmallVector<int64_t> shape = product->lead;
  shape.append({product->m, product->n});
  if (shapeOf(op.getResult()) != ArrayRef<int64_t>(shape))
    return op.emitOpError("gives [")
           << shape << "], not " << op.getResult().getType();
  return success();
}

LogicalResult MatmulOp::verify() { return verifyProduct(*this); }

/// The value before a transpose of the last two axes alone, or null.
static Value beforeSwap(Value value) {
  auto transpose = value.getDefiningOp<TransposeOp>();
  if (!transpose)
    return nullptr;
  ArrayRef<int64_t> permutation = transpose.getPermutation();
  int64_t rank = permutation.size();
  if (rank < 2 || permutation[rank - 1] != rank - 2 ||
      permutation[rank - 2] != rank - 1)
    return nullptr;
  for (int64_t axis = 0; axis < rank - 2; ++axis)
    if (permutation[axis] != axis)
      return nullptr;
  return transpose.getOperand();
}

/// A transposed operand becomes a flag; the rows of a linear layer flatten.
LogicalResult MatmulOp::canonicalize(MatmulOp op, PatternRewriter &rewriter) {
  Value lhs = beforeSwap(op.getLhs()), rhs = beforeSwap(op.getRhs());
  if (lhs || rhs) {
    rewriter.modifyOpInPlace(op, [&] {
      if (lhs) {
        op.getLhsMutable().assign(lhs);
        op.setTransposeLhs(!op.getTransposeLhs());
      }
      if (rhs) {
        op.getRhsMutable().assign(rhs);
        op.setTransposeRhs(!op.getTransposeRhs());
      }
    });
    return success();
  }
  ArrayRef<int64_t> shape = shapeOf(op.getLhs());
  if (shape.size() <= 2 || shapeOf(op.getRhs()).size() != 2 ||
      op.getTransposeLhs())
    return failure();
  NNBuilder b(rewriter, op.getLoc());
  int64_t width = shape.back();
  Value rows = b.reshape(
      op.getLhs(), {tensorType(op.getLhs()).getNumElements() / width, width});
  auto product =
      MatmulOp::create(rewriter, op.getLoc(), rows, op.getRhs(), false,
                       op.getTransposeRhs(), elementType(op.getResult()));
  Value result = b.reshape(product, shapeOf(op.getResult()));
  for (Value value : SmallVector<Value>{rows, product, result})
    inheritPlace(value.getDefiningOp(), op);
  rewriter.replaceOp(op, result);
  return success();
}

// C = A·B: dA = dC·Bᵀ, dB = Aᵀ·dC; a transposed operand swaps the factors.
NN_VJP(MatmulOp) {
  NNBuilder b(builder, getLoc());
  Value a = getLhs(), c = getRhs(), g = b.cast(resultGrads[0], elementType(a));
  bool ta = getTransposeLhs(), tc = getTransposeRhs();
  auto product = [&](Value operand, Value l, Value r, bool tl, bool tr) {
    Type type = gradientElementType(operand);
    Value full = MatmulOp::create(builder, getLoc(), l, r, tl, tr, type);
    return b.reduceTo(full, shapeOf(operand), type);
  };
  if (needed[0])
    operandGrads[0] =
        ta ? product(a, c, g, tc, true) : product(a, g, c, false, !tc);
  if (needed[1])
    operandGrads[1] =
        tc ? product(c, g, a, true, ta) : product(c, a, g, !ta, false);
  return success();
}

template <typename Product> static int64_t flopsOf(Product op) {
  ArrayRef<int64_t> a = shapeOf(op.getLhs());
  int64_t k = a[a.size() - (op.getTransposeLhs() ? 2 : 1)];
  return 2 * tensorType(op.getResult()).getNumElements() * k;
}

int64_t MatmulOp::getFlops() { return flopsOf(*this); }

//===----------------------------------------------------------------------===//
// f8_matmul (its gradients are F8.cpp's)
//===----------------------------------------------------------------------===//

LogicalResult F8MatmulOp::verify() {
  if (failed(verifyProduct(*this)))
    return failure();
  if (getLhsSource().getType() != getLhs().getType() ||
      getRhsSource().getType() != getRhs().getType() ||
      getRhsBack().getType() != getRhs().getType())
    return emitOpError("has operands of other types than their sources");
  if (std::optional<ArrayAttr> axes = getGradAxes())
    for (auto name : axes->getAsRange<StringAttr>())
      if (!parseSpelling<MeshAxis>(name.getValue()))
        return emitOpError("has parts on ranks of an unknown axis, ") << name;
  return success();
}

int64_t F8MatmulOp::getFlops() { return flopsOf(*this); }

//===----------------------------------------------------------------------===//
// matmul_epilogue
//===----------------------------------------------------------------------===//

LogicalResult MatmulEpilogueOp::verify() {
  if (failed(verifyProduct(*this)))
    return failure();
  auto result = cast<RankedTensorType>(getResult().getType());
  if (result.getRank() != 2)
    return emitOpError("has a product of two axes, not ") << result;
  auto row = result.clone(result.getShape().take_back());
  bool isBGrad = getEpilogue() == Epilogue::bgrad;
  Type side, extra; // that the epilogue has
  if (!isBGrad)
    side = getEpilogue() == Epilogue::dgelu ? result : row;
  if (getEpilogue() == Epilogue::gelu_bias)
    extra = result;
  else if (isBGrad)
    extra = row;
  auto check = [&](StringRef what, Value value, Type type) -> LogicalResult {
    if ((value ? value.getType() : Type()) == type)
      return success();
    auto error = emitOpError() << stringifyEpilogue(getEpilogue()) << " has ";
    if (type)
      return error << "the " << what << " " << type;
    return error << "no " << what;
  };
  // A bias may be another for every row: a residual stream.
  if (getEpilogue() == Epilogue::bias && getSide() &&
      getSide().getType() == result)
    side = result;
  return success(succeeded(check("side operand", getSide(), side)) &&
                 succeeded(check("extra result", getExtra(), extra)));
}

int64_t MatmulEpilogueOp::getFlops() { return flopsOf(*this); }

//===----------------------------------------------------------------------===//
// embedding
//===----------------------------------------------------------------------===//

NN_INFER(EmbeddingOp) { return inferLookup(loc, operands, inferred); }

NN_VJP(EmbeddingOp) {
  if (!needed[0])
    return success();
  auto type = tensorType(getTable()).clone(gradientElementType(getTable()));
  operandGrads[0] = EmbeddingGradOp::create(builder, getLoc(), type, getIds(),
                                            resultGrads[0]);
  return success();
}

LogicalResult EmbeddingGradOp::verify() { return verifyLookupGrad(*this); }

//===----------------------------------------------------------------------===//
// On a mesh
//===----------------------------------------------------------------------===//

namespace {
struct ShardableMatmul : ShardableModel<ShardableMatmul, MatmulOp> {
  static LogicalResult rule(MatmulOp op, ShardingQuery &query);
};
} // namespace

// Rows of the left operand, columns of the right one, or leading axes may be
// split: so is the result. Split along what is summed up, each rank has a
// summand.
LogicalResult ShardableMatmul::rule(MatmulOp op, ShardingQuery &query) {
  unsigned split = query.splitOperand(), other = 1 - split;
  const Sharding &given = query.operands[split];
  std::array<int64_t, 2> ranks = {rankOf(op.getLhs()), rankOf(op.getRhs())};
  // The summed dimensions of the operands.
  std::array<int64_t, 2> depth = {ranks[0] - (op.getTransposeLhs() ? 2 : 1),
                                  ranks[1] - (op.getTransposeRhs() ? 1 : 2)};
  int64_t rank = rankOf(op.getResult());
  query.needed[split] = given;
  if (given.dim == depth[split]) {
    query.needed[other] = given.along(depth[other]);
    query.sums = true;
    return success();
  }
  if (given.dim >= ranks[split] - 2) {
    query.results[0] = given.along(rank - (split == 0 ? 2 : 1));
    return success();
  }
  int64_t fromEnd = ranks[split] - given.dim;
  int64_t own = ranks[other] - fromEnd;
  if (own >= 0 && shapeOf(op->getOperand(other))[own] == given.size())
    query.needed[other] = given.along(own);
  query.results[0] = given.along(rank - fromEnd);
  return success();
}

void nn::attachMatmulShardings(MLIRContext &context) {
  MatmulOp::attachInterface<ShardableMatmul>(context);
}

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

static HostTensor swapLastTwo(const HostTensor &x, bool swap) {
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, x.getRank()));
  if (swap)
    std::swap(axes[axes.size() - 2], axes.back());
  return x.transpose(axes);
}

/// Adds left [m, k] · right [k, n] to `sums`.
static void addProduct(MutableArrayRef<Scalar> sums, ArrayRef<Scalar> left,
                       ArrayRef<Scalar> right, const ProductShape &sizes,
                       const Arithmetic &type) {
  for (int64_t m = 0; m < sizes.m; ++m)
    for (int64_t k = 0; k < sizes.k; ++k)
      for (int64_t n = 0; n < sizes.n; ++n)
        type.accumulate(sums[m * sizes.n + n], left[m * sizes.k + k],
                        right[k * sizes.n + n]);
}

/// The product's elements, not yet rounded; nothing where the op was refused.
template <typename Op>
static std::vector<Scalar> evaluateProduct(Op op, Interpreter &interpreter) {
  HostTensor left =
      swapLastTwo(interpreter.get(op.getLhs()), op.getTransposeLhs());
  HostTensor right =
      swapLastTwo(interpreter.get(op.getRhs()), op.getTransposeRhs());
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  ArrayRef<int64_t> lead = shape.drop_back(2);
  ProductShape sizes;
  sizes.m = shape[lead.size()];
  sizes.n = shape.back();
  sizes.k = left.getShape().back();
  SmallVector<int64_t> steps(shape);
  steps.push_back(sizes.k);
  if (!interpreter.allowsSteps(op, steps))
    return {};
  auto spread = [&](const HostTensor &x) {
    HostTensor::Dims full(lead);
    full.append({x.getShape()[x.getRank() - 2], x.getShape().back()});
    return x.broadcast(full);
  };
  left = spread(left);
  right = spread(right);
  auto matrix = [&](HostTensor x, ArrayRef<int64_t> index) {
    for (auto [axis, i] : llvm::enumerate(index))
      x = x.slice(axis, i, 1, 1);
    return x.flatten();
  };
  Arithmetic type = interpreter.arithmetic(op.getLhs());
  std::vector<Scalar> sums;
  forEachIndex(lead, [&](ArrayRef<int64_t> index) {
    size_t begin = sums.size();
    sums.resize(begin + sizes.m * sizes.n, type.zero());
    addProduct(MutableArrayRef<Scalar>(sums).drop_front(begin),
               matrix(left, index), matrix(right, index), sizes, type);
  });
  return sums;
}

template <typename Op>
static LogicalResult setProduct(Op op, Interpreter &interpreter) {
  std::vector<Scalar> product = evaluateProduct(op, interpreter);
  if (product.empty() && tensorType(op.getResult()).getNumElements() > 0)
    return failure();
  return interpreter.set(op.getResult(), std::move(product));
}

NN_EVALUATE(MatmulOp) { return setProduct(*this, interpreter); }
NN_EVALUATE(F8MatmulOp) { return setProduct(*this, interpreter); }

/// GELU in tanh's form, and its derivative.
static double geluOf(double x, double &slope) {
  const double scale = std::sqrt(2 / M_PI), cubic = 0.044715;
  double t = std::tanh(scale * (x + cubic * x * x * x));
  slope = (1 + t) / 2 + x / 2 * (1 - t * t) * scale * (1 + 3 * cubic * x * x);
  return x / 2 * (1 + t);
}

NN_EVALUATE(MatmulEpilogueOp) {
  std::vector<Scalar> result = evaluateProduct(*this, interpreter);
  if (result.empty() && tensorType(getResult()).getNumElements() > 0)
    return failure();
  Epilogue kind = getEpilogue();
  if (kind == Epilogue::bgrad) {
    Elements rhs(interpreter.get(getRhs()));
    Elements sums(shapeOf(getExtra()), ofFloat(0));
    forEachIndex(rhs.shape, [&](ArrayRef<int64_t> index) {
      sums.at({index[getTransposeRhs() ? 0 : 1]}).f += rhs.at(index).f;
    });
    (void)interpreter.set(getExtra(), std::move(sums.values));
    return interpreter.set(getResult(), std::move(result));
  }
  std::vector<Scalar> side = interpreter.get(getSide()).flatten(), extra;
  double slope = 0;
  for (auto [i, p] : llvm::enumerate(result)) {
    if (kind == Epilogue::dgelu) {
      (void)geluOf(side[i].f, slope);
      p.f *= slope;
      continue;
    }
    p.f += side[i % side.size()].f;
    if (kind == Epilogue::gelu_bias) {
      extra.push_back(p);
      p.f = geluOf(p.f, slope);
    }
  }
  if (getExtra())
    (void)interpreter.set(getExtra(), std::move(extra));
  return interpreter.set(getResult(), std::move(result));
}

NN_EVALUATE(EmbeddingOp) {
  const HostTensor &ids = interpreter.get(getIds());
  HostTensor::Dims shape(ids.getShape());
  shape.push_back(1);
  return evaluateGather(*this, interpreter, interpreter.get(getTable()),
                        ids.reshape(shape),
                        IndexAxes::along(0, 2, ids.getRank()));
}

NN_EVALUATE(EmbeddingGradOp) {
  if (!interpreter.allows(*this))
    return failure();
  Elements table(shapeOf(getTableGrad()), ofFloat(0));
  Elements rows(interpreter.get(getResultGrad()));
  std::vector<Scalar> ids = interpreter.get(getIds()).flatten();
  bool inside = true;
  forEachRow(rows, [&](size_t row, ArrayRef<Scalar> elements) {
    int64_t id = ids[row].i;
    id = id < 0 ? id + table.shape[0] : id;
    inside &= id >= 0 && id < table.shape[0];
    for (auto [i, x] : llvm::enumerate(elements))
      if (inside)
        table.at({id, int64_t(i)}).f += x.f;
  });
  if (!inside)
    return interpreter.refuse(*this, "an index is outside of its axis");
  return interpreter.set(getTableGrad(), std::move(table.values));
}
