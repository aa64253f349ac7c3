// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-join-products: linear layers that read the same rows (query, key and
// value; gate and up) become one product with their weights side by side. What
// differentiation makes of it is one product for all their gradients, and one
// for the rows' gradient.

#include "Reshapes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "shardonnx/Dialect/NN/IR/JoinedParameters.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/RaiseReport.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/runtime/Layout.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

#include <map>

namespace shardonnx::nn {
#define GEN_PASS_DEF_JOINPRODUCTSPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

namespace {

/// A linear layer: rows times a parameter, and what adds its bias, if that is
/// all that reads the product.
struct Linear {
  MatmulOp product;
  GetOp weight;
  AddOp sum;
  GetOp bias;
};

/// Products of one unit that read the same rows.
using Rows = std::tuple<const void *, const void *, const void *>;

class Joiner {
public:
  explicit Joiner(ModuleOp module) : module(module), symbols(module) {}

  void run();

private:
  GetOp onlyRead(Value value, Operation *reader);
  FlatSymbolRefAttr ownerOf(GetOp get);
  StringRef whyApart(MatmulOp product, GetOp &weight);
  void findBias(Linear &linear);
  bool fitTogether(GetOp a, GetOp b);
  void joinAlike(ArrayRef<Linear> linears);
  void join(ArrayRef<Linear> linears);
  Value joinParameters(ArrayRef<GetOp> gets, Operation *before,
                       OpBuilder &builder);
  void note(Operation *op, StringRef why);

  ModuleOp module;
  SymbolTable symbols;
  llvm::DenseMap<StringAttr, unsigned> reads; // of each parameter
  RaiseNotes notes;
};

} // namespace

/// The unit of the parameter.
FlatSymbolRefAttr Joiner::ownerOf(GetOp get) {
  return unitOf(symbols.lookup<ParameterOp>(get.getParameter()));
}

/// The parameter that `value` is, if `reader` alone reads it.
GetOp Joiner::onlyRead(Value value, Operation *reader) {
  auto get = value.getDefiningOp<GetOp>();
  if (!get || reads.lookup(get.getParameterAttr().getAttr()) != 1 ||
      ownerOf(get) != unitOf(reader))
    return nullptr;
  return get;
}

/// Why a product's weight cannot stand beside others; nothing if it can, and is
/// then `weight`.
StringRef Joiner::whyApart(MatmulOp product, GetOp &weight) {
  if (shapeOf(product.getRhs()).size() != 2 || product.getTransposeLhs())
    return "they are no linear layers";
  auto get = product.getRhs().getDefiningOp<GetOp>();
  if (!get)
    return "their weights are computed";
  if (!product.getTransposeRhs())
    return "their weights are stored [in, out], so they do not join without a "
           "copy";
  if (reads.lookup(get.getParameterAttr().getAttr()) != 1)
    return "a weight is read in several places";
  if (ownerOf(get) != unitOf(product))
    return "a weight belongs to another unit";
  weight = get;
  return "";
}

/// The sum of the product's rows and a bias, which is all that reads them.
void Joiner::findBias(Linear &linear) {
  Value value = linear.product.getResult();
  while (value.hasOneUse() && isa<ReshapeOp>(*value.user_begin()))
    value = value.user_begin()->getResult(0);
  auto sum = value.hasOneUse() ? dyn_cast<AddOp>(*value.user_begin()) : AddOp();
  if (!sum || sum.getType() != value.getType())
    return;
  GetOp bias =
      onlyRead(sum.getLhs() == value ? sum.getRhs() : sum.getLhs(), sum);
  if (!bias || shapeOf(bias.getResult()) !=
                   shapeOf(linear.product.getResult()).take_back())
    return;
  linear.sum = sum;
  linear.bias = bias;
}

/// Whether `b` may lie right behind `a`: trained alike, and aligned.
bool Joiner::fitTogether(GetOp a, GetOp b) {
  auto first = symbols.lookup<ParameterOp>(a.getParameter()),
       second = symbols.lookup<ParameterOp>(b.getParameter());
  return first.getTrainable() == second.getTrainable() &&
         elementType(a.getResult()) == elementType(b.getResult()) &&
         tensorType(a.getResult()).getNumElements() % kSliceAlignment == 0;
}

/// The parameters as one, in the unit of `before`.
Value Joiner::joinParameters(ArrayRef<GetOp> gets, Operation *before,
                             OpBuilder &builder) {
  SmallVector<Value> values;
  for (GetOp get : gets) {
    get->moveBefore(before);
    values.push_back(get.getResult());
  }
  return ConcatOp::create(builder, before->getLoc(), values, /*axis=*/0);
}

void Joiner::join(ArrayRef<Linear> linears) {
  MatmulOp first = linears.front().product;
  PlaceListener listener(first.getPlaceAttr());
  OpBuilder builder(first, &listener);
  NNBuilder b(builder, first.getLoc());
  SmallVector<GetOp> weights, biases;
  for (const Linear &linear : linears) {
    weights.push_back(linear.weight);
    biases.push_back(linear.bias);
  }
  Value weight = joinParameters(weights, first, builder);
  Value whole = MatmulOp::create(
      builder, first.getLoc(), first.getLhs(), weight, /*transposeLhs=*/false,
      /*transposeRhs=*/true, elementType(first.getResult()));
  bool biased = llvm::all_of(biases, [](GetOp bias) { return bool(bias); });
  for (size_t i = 1; biased && i < biases.size(); ++i)
    biased = fitTogether(biases[i - 1], biases[i]);
  if (biased)
    whole = b.add(whole, joinParameters(biases, first, builder));
  int64_t axis = rankOf(whole) - 1, offset = 0;
  for (Linear linear : linears) {
    Operation *old =
        biased ? linear.sum.getOperation() : linear.product.getOperation();
    int64_t width = shapeOf(linear.product.getResult()).back();
    Value part = b.slice(whole, axis, offset, width);
    old->getResult(0).replaceAllUsesWith(
        b.reshape(part, shapeOf(old->getResult(0))));
    offset += width;
    note(linear.product, "");
  }
  for (const Linear &linear : linears) {
    SmallVector<Operation *> old = {linear.product};
    while (!old.back()->use_empty())
      old.push_back(*old.back()->user_begin());
    for (Operation *op : llvm::reverse(old))
      op->erase();
  }
}

/// Joins those that may lie behind one another; parameters that are frozen form
/// products of their own.
void Joiner::joinAlike(ArrayRef<Linear> linears) {
  SmallVector<SmallVector<Linear>> groups;
  for (const Linear &linear : linears) {
    auto *group = llvm::find_if(groups, [&](ArrayRef<Linear> group) {
      return fitTogether(group.back().weight, linear.weight);
    });
    if (group == groups.end())
      groups.push_back({linear});
    else
      group->push_back(linear);
  }
  for (ArrayRef<Linear> group : groups) {
    if (group.size() > 1)
      join(group);
    else
      note(group.front().product,
           "a weight is frozen and another is not, or is no multiple of 16 "
           "elements");
  }
}

void Joiner::note(Operation *op, StringRef why) {
  notes.add(op, why.empty() ? "joined products" : "products of the same rows",
            why);
}

void Joiner::run() {
  llvm::MapVector<Rows, SmallVector<MatmulOp>> readers;
  module.walk([&](Operation *op) {
    if (auto get = dyn_cast<GetOp>(op))
      reads[get.getParameterAttr().getAttr()] +=
          std::distance(get->use_begin(), get->use_end());
    auto product = dyn_cast<MatmulOp>(op);
    if (!product)
      return;
    Value rows = withoutReshapes(product.getLhs());
    auto weight = withoutReshapes(product.getRhs()).getDefiningOp<GetOp>();
    if (weight || product.getTransposeRhs())
      readers[{rows.getAsOpaquePointer(),
               product.getLhs().getType().getAsOpaquePointer(),
               unitOf(product).getAsOpaquePointer()}]
          .push_back(product);
  });
  for (auto &[rows, products] : readers) {
    if (products.size() < 2)
      continue;
    SmallVector<Linear> linears;
    for (MatmulOp product : products) {
      Linear linear = {product, nullptr, nullptr, nullptr};
      StringRef why = whyApart(product, linear.weight);
      if (!why.empty()) {
        note(product, why);
        continue;
      }
      findBias(linear);
      linears.push_back(linear);
    }
    if (!linears.empty())
      joinAlike(linears);
  }
  notes.addTo(module);
}

namespace {
struct JoinProductsPass : nn::impl::JoinProductsPassBase<JoinProductsPass> {
  void runOnOperation() override { Joiner(getOperation()).run(); }
};
} // namespace
