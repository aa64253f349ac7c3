// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-group-matmuls: a mixture of experts is exported as one matrix looked up
// for each row and a product with it. Here the row says which matrix it wants,
// and no matrix is copied.

#include "MatrixLookup.h"
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

/// The product of one vector for each of many matrices, or null.
static Value groupProduct(MatmulOp op) {
  std::optional<MatrixLookup> found = findMatrixLookup(op);
  if (!found || found->experts() > SHX_MOST_GROUPS ||
      found->count() > INT32_MAX)
    return nullptr;
  PlaceListener listener(op.getPlaceAttr());
  OpBuilder builder(op, &listener);
  NNBuilder b(builder, op.getLoc());
  ArrayRef<int64_t> shape = shapeOf(found->matrices());
  int64_t rows = found->count();
  Value product = GroupedMatmulOp::create(
      builder, op.getLoc(), b.reshape(found->vectors(), {rows, found->in()}),
      b.reshape(found->lookup.getTable(),
                {found->experts(), shape[1], shape[2]}),
      b.reshape(found->lookup.getIds(), {rows}), found->transposed());
  return b.reshape(product, shapeOf(op.getResult()));
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
