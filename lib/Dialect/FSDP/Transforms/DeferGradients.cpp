// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Orders the end of backward so that the last reduction has work beside it.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_DEFERGRADIENTSPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

// A unit's gradients are there behind `last`.
struct UnitEnd {
  Attribute unit;
  Operation *last = nullptr;
};

class Deferrer {
public:
  Deferrer(func::FuncOp function, const SymbolTable &symbols)
      : body(function.front()), symbols(symbols) {}
  void run();

private:
  Attribute unitOf(nn::GradOp grad) const;
  SmallVector<UnitEnd> findEnds() const;
  bool isOnlyGradientOf(Operation *product, Attribute unit) const;
  bool feeds(Value value, Attribute unit) const;
  Operation *moveBehind(Operation *op, Operation *place) const;

  Block &body;
  const SymbolTable &symbols;
};

// The op that makes a gradient, behind what only changes its form.
Operation *makerOf(Value gradient) {
  Operation *def = gradient.getDefiningOp();
  while (def &&
         isa<nn::ReshapeOp, nn::TransposeOp, nn::CastOp, nn::SliceOp>(def))
    def = def->getOperand(0).getDefiningOp();
  return def;
}

Attribute Deferrer::unitOf(nn::GradOp grad) const {
  Operation *parameter = symbols.lookup(grad.getParameter());
  return parameter ? Attribute(nn::unitOf(parameter)) : Attribute();
}

// In the order of the last gradients.
SmallVector<UnitEnd> Deferrer::findEnds() const {
  llvm::MapVector<Attribute, Operation *> ends;
  for (auto grad : body.getOps<nn::GradOp>()) {
    Operation *maker = makerOf(grad.getValue());
    if (!maker)
      continue;
    Operation *&last = ends[unitOf(grad)];
    if (!last || last->isBeforeInBlock(maker))
      last = maker;
  }
  SmallVector<UnitEnd> list;
  for (auto [unit, last] : ends)
    list.push_back({unit, last});
  llvm::sort(list, [](const UnitEnd &a, const UnitEnd &b) {
    return a.last->isBeforeInBlock(b.last);
  });
  return list;
}

bool Deferrer::feeds(Value value, Attribute unit) const {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (auto grad = dyn_cast<nn::GradOp>(user))
      return unitOf(grad) == unit;
    return feeds(user->getResult(0), unit);
  });
}

bool Deferrer::isOnlyGradientOf(Operation *product, Attribute unit) const {
  return llvm::all_of(product->getResults(), [&](Value result) {
    return becomesGradient(result) && feeds(result, unit);
  });
}

// With what only changes the form of its results, and hands them over. Returns
// the last op that was moved.
Operation *Deferrer::moveBehind(Operation *op, Operation *place) const {
  op->moveAfter(place);
  place = op;
  for (Operation *user : llvm::to_vector(op->getUsers()))
    place = moveBehind(user, place);
  return place;
}

void Deferrer::run() {
  SmallVector<UnitEnd> ends = findEnds();
  if (ends.size() < 2)
    return;
  Attribute before = ends[ends.size() - 2].unit;
  Operation *place = ends.back().last;
  SmallVector<Operation *> products;
  for (Operation &op : body)
    if (isa<nn::MatmulOp, nn::MatmulEpilogueOp, nn::F8ProductOp>(op) &&
        op.isBeforeInBlock(place) && isOnlyGradientOf(&op, before))
      products.push_back(&op);
  for (Operation *product : products)
    place = moveBehind(product, place);
}

struct DeferGradientsPass
    : public fsdp::impl::DeferGradientsPassBase<DeferGradientsPass> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (func::FuncOp function : stepFunctions(getOperation()))
      Deferrer(function, symbols).run();
  }
};

} // namespace
