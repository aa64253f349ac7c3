// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-group-matmuls: a mixture of experts is exported as one matrix looked up
// for each row and a product with it. Here the row says which matrix it wants,
// and no matrix is copied.

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/runtime/IndexABI.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_GROUPMATMULSPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

/// The rows of a table that are whole matrices [rows, a, b], one for each
/// index, looked up for this alone; null if it is something else.
static EmbeddingOp matrixLookup(Value matrices) {
  auto reshape = matrices.getDefiningOp<ReshapeOp>();
  auto lookup = reshape ? reshape.getOperand().getDefiningOp<EmbeddingOp>()
                        : EmbeddingOp();
  ArrayRef<int64_t> shape = shapeOf(matrices);
  if (!lookup || shape.size() != 3 || !matrices.hasOneUse() ||
      !lookup->hasOneUse() ||
      tensorType(lookup.getIds()).getNumElements() != shape[0] ||
      shapeOf(lookup.getTable())[0] > SHX_MOST_GROUPS || shape[0] > INT32_MAX ||
      shapeOf(lookup.getTable())[1] != shape[1] * shape[2])
    return nullptr;
  return lookup;
}

/// The product of one vector for each of many matrices, or null.
static Value groupProduct(MatmulOp op) {
  bool left = true; // is the matrix on the left?
  EmbeddingOp lookup = matrixLookup(op.getLhs());
  if (!lookup) {
    left = false;
    lookup = matrixLookup(op.getRhs());
  }
  ArrayRef<int64_t> result = shapeOf(op.getResult());
  if (!lookup || result.size() != 3 || result[left ? 2 : 1] != 1)
    return nullptr;
  Value matrices = left ? op.getLhs() : op.getRhs();
  Value vectors = left ? op.getRhs() : op.getLhs();
  ArrayRef<int64_t> shape = shapeOf(matrices);
  if (tensorType(vectors).getRank() != 3 || shapeOf(vectors)[0] != shape[0])
    return nullptr;
  PlaceListener listener(op.getPlaceAttr());
  OpBuilder builder(op, &listener);
  NNBuilder b(builder, op.getLoc());
  // W·x is x·Wᵀ: stored as it is, W is then the transposed matrix.
  bool transposed = left ? !op.getTransposeLhs() : bool(op.getTransposeRhs());
  int64_t depth = shape[transposed ? 2 : 1], rows = shape[0];
  Value table = lookup.getTable();
  Value product = GroupedMatmulOp::create(
      builder, op.getLoc(), b.reshape(vectors, {rows, depth}),
      b.reshape(table, {shapeOf(table)[0], shape[1], shape[2]}),
      b.reshape(lookup.getIds(), {rows}), transposed);
  return b.reshape(product, result);
}

namespace {
struct GroupMatmulsPass : nn::impl::GroupMatmulsPassBase<GroupMatmulsPass> {
  void runOnOperation() override {
    SmallVector<MatmulOp> products;
    getOperation().walk([&](MatmulOp op) { products.push_back(op); });
    for (MatmulOp op : products) {
      Value matrices = op.getLhs(), others = op.getRhs();
      Value product = groupProduct(op);
      if (!product)
        continue;
      op.getResult().replaceAllUsesWith(product);
      op.erase();
      for (Value operand : {matrices, others})
        if (auto reshape = operand.getDefiningOp<ReshapeOp>();
            reshape && reshape->use_empty()) {
          Operation *lookup = reshape.getOperand().getDefiningOp();
          reshape.erase();
          if (isa_and_nonnull<EmbeddingOp>(lookup) && lookup->use_empty())
            lookup->erase();
        }
    }
  }
};
} // namespace
