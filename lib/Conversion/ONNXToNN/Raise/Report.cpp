// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Notes what the raise found, and what is still written out although it looks
// like something that has an op: softmax between two products, the root of a
// mean of squares, erf, halves of heads exchanged. A graph where nothing was
// found trains, only slower; its owner should know why.

#include "Match.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/NN/IR/RaiseReport.h"

using namespace mlir;

namespace shardonnx {

#define GEN_PASS_DEF_REPORTRAISE
#include "shardonnx/Conversion/ONNXToNN/Passes.h.inc"

namespace {

/// How far patterns are followed.
constexpr unsigned depthLimit = 8;

bool isView(Operation *op) {
  return isa<nn::ReshapeOp, nn::CastOp, nn::BroadcastOp, nn::TransposeOp,
             nn::SliceOp>(op);
}

/// The first op of type `Op` behind `value`, through ops that `passes` allows.
template <typename Op, typename Passes>
Op findBehind(Value value, Passes passes, unsigned depth = 0) {
  Operation *op = value.getDefiningOp();
  if (!op || depth > depthLimit)
    return {};
  if (auto found = dyn_cast<Op>(op))
    return found;
  if (!passes(op))
    return {};
  for (Value operand : op->getOperands())
    if (Op found = findBehind<Op>(operand, passes, depth + 1))
      return found;
  return {};
}

/// The product that weights values by `weights`, and whether some are dropped.
nn::MatmulOp findWeighting(Value weights, bool &dropped, unsigned depth = 0) {
  if (depth > depthLimit)
    return {};
  for (Operation *user : weights.getUsers()) {
    if (auto product = dyn_cast<nn::MatmulOp>(user))
      return product;
    bool drops = isa<nn::DropoutOp>(user);
    if (!drops && !isView(user) && !isa<nn::SelectOp>(user))
      continue;
    if (nn::MatmulOp product =
            findWeighting(user->getResult(0), dropped, depth + 1)) {
      dropped |= drops;
      return product;
    }
  }
  return {};
}

/// Why a softmax is not part of attention; empty: it never was.
StringRef explainSoftmax(nn::SoftmaxOp softmax) {
  bool dropped = false;
  nn::MatmulOp weighting = findWeighting(softmax.getResult(), dropped);
  auto isOfScores = [](Operation *op) {
    return isView(op) || isa<nn::AddOp, nn::SubOp, nn::MulOp, nn::DivOp,
                             nn::TanhOp, nn::SelectOp, nn::ConcatOp>(op);
  };
  auto product = findBehind<nn::MatmulOp>(softmax.getOperand(), isOfScores);
  if (!weighting || !product)
    return "";
  if (dropped)
    return "its weights are dropped, which attention cannot do; --dropout=off "
           "leaves dropout out";
  if (findBehind<nn::ConcatOp>(softmax.getOperand(), isOfScores))
    return "its softmax is over more than its scores and a sink of each head";
  if (int64_t rank = rankOf(product.getResult()); rank != 4 && rank != 3)
    return "its scores are not [batch, heads, queries, keys]";
  if (shapeOf(weighting.getResult()).back() !=
      (product.getTransposeLhs() ? shapeOf(product.getLhs())[2]
                                 : shapeOf(product.getLhs()).back()))
    return "its values are of another width than its keys";
  return "what lies between its product, softmax and values is not known";
}

bool averagesSquares(Value value) {
  auto mean = findBehind<nn::ReduceMeanOp>(
      value, [](Operation *op) { return isView(op) || isa<nn::AddOp>(op); });
  return mean && matchSquare(stripCasts(mean.getOperand()));
}

/// What an op looks like a part of, and why it is not.
std::pair<StringRef, StringRef> explain(Operation *op) {
  if (auto softmax = dyn_cast<nn::SoftmaxOp>(op))
    return {"attention", explainSoftmax(softmax)};
  if (isa<nn::RsqrtOp, nn::SqrtOp>(op) && averagesSquares(op->getOperand(0)))
    return {"norm", "what lies around the root of its mean of squares is not "
                    "known"};
  if (isa<nn::ErfOp>(op))
    return {"gelu", "it is not x·(1 + erf(x/√2))/2"};
  if (auto concat = dyn_cast<nn::ConcatOp>(op))
    if (concat->getNumOperands() == 2 &&
        (concat->getOperand(0).getDefiningOp<nn::NegOp>() ||
         concat->getOperand(1).getDefiningOp<nn::NegOp>()))
      return {"rotary", "its halves, or its tables of cosines and sines, are "
                        "not known"};
  return {"", ""};
}

/// Ops that a raise makes, or that a node stands for as it is.
bool isOneOp(Operation *op) {
  return isa<nn::AttentionOp, nn::RmsNormOp, nn::LayerNormOp, nn::RotaryOp,
             nn::GeluOp, nn::SiluOp, nn::CrossEntropyOp>(op);
}

struct ReportRaise : impl::ReportRaiseBase<ReportRaise> {
  using ReportRaiseBase::ReportRaiseBase;

  void runOnOperation() override {
    nn::RaiseNotes notes;
    getOperation().walk([&](Operation *op) {
      if (isOneOp(op))
        return notes.add(op, op->getName().stripDialect());
      auto [what, why] = explain(op);
      if (!why.empty())
        notes.add(op, what,
                  strict ? "--strict-numerics keeps what is written out" : why);
    });
    notes.addTo(getOperation());
  }
};

} // namespace
} // namespace shardonnx
