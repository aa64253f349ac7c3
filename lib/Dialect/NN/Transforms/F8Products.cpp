// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-f8-products: linear layers multiply operands of 8 bits, as torchao's
// convert_to_float8_training has it. It stands behind nn-join-products, so
// that what is one product has one scale.

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shardonnx/Cost/Device.h"
#include "shardonnx/Cost/LinearLayer.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"
#include "shardonnx/Dialect/NN/IR/RaiseReport.h"
#include "shardonnx/Dialect/NN/IR/UnitPolicy.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/runtime/Choices.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_F8PRODUCTSPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

/// What the products of 8 bits want of every size.
static constexpr int64_t kSizeMultiple = 16;

/// The operands that a recipe multiplies in forward, and the weight of the
/// rows' gradient.
static F8MatmulOp roundOperands(MatmulOp product, F8Recipe recipe) {
  PlaceListener listener(product.getPlaceAttr());
  OpBuilder builder(product, &listener);
  Location loc = product.getLoc();
  Value rows = product.getLhs(), weight = product.getRhs();
  auto round = [&](Value value, Value amax) {
    return roundToF8(builder, loc, F8Format::e4m3, value, amax);
  };
  Value lhs, rhs, back;
  if (recipe == F8Recipe::rowwise) {
    lhs = round(rows, amaxOf(builder, loc, rows, 1));
    // The weight is read once for both of its scales.
    Value amax = amaxOf(builder, loc, weight, product.getTransposeRhs());
    rhs = round(weight, amax);
    back = round(weight, amaxOf(builder, loc, amax));
  } else {
    lhs = round(rows, amaxOf(builder, loc, rows));
    rhs = back = round(weight, amaxOf(builder, loc, weight));
  }
  return F8MatmulOp::create(builder, loc, product.getType(), recipe, lhs, rhs,
                            rows, weight, back, product.getTransposeRhs());
}

namespace {

struct F8ProductsPass : nn::impl::F8ProductsPassBase<F8ProductsPass> {
  using F8ProductsPassBase::F8ProductsPassBase;

  std::optional<F8Recipe> recipeOf(FlatSymbolRefAttr unit);
  StringRef whyNot(MatmulOp product, F8Recipe recipe) const;
  bool savesTime(MatmulOp product, F8Recipe recipe) const;
  void runOnOperation() override;

  std::optional<Device> predicted;
};

} // namespace

/// What the unit's policy says, else the option.
std::optional<F8Recipe> F8ProductsPass::recipeOf(FlatSymbolRefAttr unit) {
  StringRef word = dtype;
  if (auto setting = dyn_cast_or_null<StringAttr>(
          unitSetting(getOperation(), unit.getValue(), kMatmulDtypeKey)))
    word = setting.getValue();
  switch (parseSpelling<MatmulDtype>(word).value_or(MatmulDtype::Param)) {
  case MatmulDtype::Param:
    return std::nullopt;
  case MatmulDtype::F8:
    return F8Recipe::tensorwise;
  case MatmulDtype::F8Rowwise:
    return F8Recipe::rowwise;
  }
  llvm_unreachable("three words");
}

/// Why a product of a unit with a recipe keeps its type; nothing if it does
/// not.
StringRef F8ProductsPass::whyNot(MatmulOp product, F8Recipe recipe) const {
  ArrayRef<int64_t> lhs = shapeOf(product.getLhs()),
                    rhs = shapeOf(product.getRhs());
  if (!isParameterView(product.getRhs()) || lhs.size() != 2 ||
      rhs.size() != 2 || product.getTransposeLhs())
    return "they are no linear layers";
  auto isMultiple = [](int64_t size) { return size % kSizeMultiple == 0; };
  if (!llvm::all_of(lhs, isMultiple) || !llvm::all_of(rhs, isMultiple))
    return "a size is no multiple of 16";
  if (!savesTime(product, recipe))
    return "8 bits save no time";
  return "";
}

bool F8ProductsPass::savesTime(MatmulOp product, F8Recipe recipe) const {
  ArrayRef<int64_t> lhs = shapeOf(product.getLhs()),
                    result = shapeOf(product.getResult());
  bool half = elementType(product.getLhs()).getIntOrFloatBitWidth() == 16;
  LinearLayer layer{double(lhs[0]), double(lhs[1]), double(result[1]), half};
  return leastGain <= 0 ||
         f8Gain(*predicted, layer, recipe == F8Recipe::rowwise) >= leastGain;
}

void F8ProductsPass::runOnOperation() {
  predicted = deviceNamed(device);
  if (!predicted) {
    getOperation().emitError("nn-f8-products: no device is called ") << device;
    return signalPassFailure();
  }
  RaiseNotes notes;
  SmallVector<MatmulOp> products;
  getOperation().walk([&](MatmulOp op) { products.push_back(op); });
  for (MatmulOp product : products) {
    // The head, and what else is of no block, keep their precision.
    FlatSymbolRefAttr unit = unitOf(product);
    std::optional<F8Recipe> recipe;
    if (unit && unit.getValue() != fsdp::kRootUnit)
      recipe = recipeOf(unit);
    if (!recipe)
      continue;
    StringRef why = whyNot(product, *recipe);
    notes.add(product, "products of 8 bits", why);
    if (!why.empty())
      continue;
    product.replaceAllUsesWith(roundOperands(product, *recipe).getResult());
    product.erase();
  }
  notes.addTo(getOperation());
}
