// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See MatrixLookup.h.

#include "MatrixLookup.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

/// The rows of a table that are whole matrices [rows, a, b], one for each
/// index, looked up for this alone; null if it is something else.
static EmbeddingOp lookupOf(Value matrices) {
  auto reshape = matrices.getDefiningOp<ReshapeOp>();
  auto lookup = reshape ? reshape.getOperand().getDefiningOp<EmbeddingOp>()
                        : EmbeddingOp();
  ArrayRef<int64_t> shape = shapeOf(matrices);
  if (!lookup || shape.size() != 3 || !matrices.hasOneUse() ||
      !lookup->hasOneUse() ||
      tensorType(lookup.getIds()).getNumElements() != shape[0] ||
      shapeOf(lookup.getTable())[1] != shape[1] * shape[2])
    return nullptr;
  return lookup;
}

std::optional<MatrixLookup> nn::findMatrixLookup(MatmulOp product) {
  MatrixLookup found = {product, lookupOf(product.getLhs()), true};
  if (!found.lookup)
    found = {product, lookupOf(product.getRhs()), false};
  ArrayRef<int64_t> result = shapeOf(product.getResult());
  if (!found.lookup || result.size() != 3 || result[found.left ? 2 : 1] != 1)
    return std::nullopt;
  ArrayRef<int64_t> vectors = shapeOf(found.vectors());
  if (vectors.size() != 3 || vectors[0] != found.count())
    return std::nullopt;
  return found;
}
