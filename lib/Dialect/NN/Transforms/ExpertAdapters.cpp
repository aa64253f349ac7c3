// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See ExpertAdapters.h.

#include "ExpertAdapters.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

/// The parameter that a table is a view of; null if it is none.
static ParameterOp parameterOf(Value table) {
  while (auto reshape = table.getDefiningOp<ReshapeOp>())
    table = reshape.getOperand();
  auto get = table.getDefiningOp<GetOp>();
  return get ? get->getParentOfType<ModuleOp>().lookupSymbol<ParameterOp>(
                   get.getParameterAttr())
             : ParameterOp();
}

SmallVector<Experts> nn::findExperts(func::FuncOp function) {
  SmallVector<Experts> found;
  for (auto product : function.getOps<MatmulOp>())
    if (std::optional<MatrixLookup> chosen = findMatrixLookup(product))
      if (ParameterOp weight = parameterOf(chosen->lookup.getTable());
          weight && cast<RankedTensorType>(weight.getType()).getRank() == 3)
        found.push_back({*chosen, weight});
  return found;
}

// Written as the product itself is: each row looks up its expert's two
// matrices, and nn-group-matmuls makes of it what it makes of the product.
void nn::addExpertAdapter(Experts experts, ParameterOp a, ParameterOp b,
                          double scaling) {
  MatrixLookup base = experts.chosen;
  MatmulOp product = base.product;
  Location loc = product.getLoc();
  PlaceListener listener(product.getPlaceAttr());
  OpBuilder builder(product->getContext(), &listener);
  builder.setInsertionPointAfter(product);
  NNBuilder nn(builder, loc);
  int64_t count = base.experts(), rows = base.count(), in = base.in(),
          out = base.out();
  auto get = [&](ParameterOp parameter) -> Value {
    return GetOp::create(builder, loc, parameter.getType(),
                         FlatSymbolRefAttr::get(parameter));
  };
  auto times = [&](Value table, int64_t to, Value vectors) -> Value {
    int64_t from = shapeOf(vectors)[1];
    Value found =
        EmbeddingOp::create(builder, loc, nn.reshape(table, {count, to * from}),
                            base.lookup.getIds());
    return MatmulOp::create(builder, loc, nn.reshape(found, {rows, to, from}),
                            vectors, /*transposeLhs=*/false,
                            /*transposeRhs=*/false);
  };
  Value down = get(a), up = get(b);
  int64_t rank = shapeOf(down)[0] / count;
  up = nn.transpose(nn.reshape(up, {out, rank, count}), {2, 0, 1});
  Value small = times(down, rank, nn.reshape(base.vectors(), {rows, in, 1}));
  Value large = times(up, out, nn.mul(small, scaling));
  Value sum = nn.add(product.getResult(),
                     nn.reshape(large, shapeOf(product.getResult())));
  product.getResult().replaceAllUsesExcept(sum, sum.getDefiningOp());
}
