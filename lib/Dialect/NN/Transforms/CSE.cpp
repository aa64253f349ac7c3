// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-cse-across-modules: common subexpressions across modules.

#include "mlir/Transforms/CSE.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "llvm/ADT/DenseMap.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_CSEACROSSMODULESPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;

namespace {
struct CSEAcrossModulesPass
    : nn::impl::CSEAcrossModulesPassBase<CSEAcrossModulesPass> {
  // MLIR compares all attributes, so places are put aside meanwhile.
  void runOnOperation() override {
    llvm::DenseMap<Operation *, nn::PlaceAttr> places;
    getOperation().walk([&](nn::PlacedOpInterface op) {
      if (nn::PlaceAttr place = op.getPlaceAttr())
        places[op.getOperation()] = place;
      op.setPlaceAttr(nullptr);
    });
    IRRewriter rewriter(&getContext());
    DominanceInfo dominance(getOperation());
    eliminateCommonSubExpressions(rewriter, dominance, getOperation());
    getOperation().walk([&](nn::PlacedOpInterface op) {
      op.setPlaceAttr(places.lookup(op.getOperation()));
    });
  }
};
} // namespace
