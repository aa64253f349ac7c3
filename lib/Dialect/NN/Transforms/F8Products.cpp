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
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
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

namespace {

/// Which of a weight's dimensions the ranks of the tensor axis have parts of.
enum class WeightSplit { none, depth, columns, unknown };

/// Makes a product's operands, and what its gradients need.
class Rounder {
public:
  Rounder(MatmulOp product, F8Recipe recipe);
  F8MatmulOp build();

private:
  Value round(Value value, Value amax) {
    return roundToF8(builder, loc, F8Format::e4m3, value, amax);
  }
  void byRow();
  void byTensor();

  MatmulOp product;
  F8Recipe recipe;
  WeightSplit split;
  PlaceListener listener;
  OpBuilder builder;
  Location loc;
  Value rows, weight;   // of the product
  Value lhs, rhs, back; // rounded
  SmallVector<MeshAxis> gradAxes;
};

} // namespace

/// Follows the weight's dimension `depth` to its parameter's.
static WeightSplit splitOf(Value weight, int64_t depth) {
  while (Operation *op = weight.getDefiningOp()) {
    if (auto get = dyn_cast<GetOp>(op)) {
      auto parameter = SymbolTable::lookupNearestSymbolFrom<ParameterOp>(
          get, get.getParameterAttr());
      std::optional<Split> split = nn::splitOf(parameter);
      if (!split)
        return WeightSplit::none;
      return split->dim == depth ? WeightSplit::depth : WeightSplit::columns;
    }
    if (auto transpose = dyn_cast<TransposeOp>(op))
      depth = transpose.getPermutation()[size_t(depth)];
    else if (!isa<CastOp, VaryOp, ConcatOp>(op))
      break;
    weight = op->getOperand(0);
  }
  return WeightSplit::unknown;
}

/// The dimension of the weight that a product sums along.
static int64_t depthOf(MatmulOp product) {
  return product.getTransposeRhs() ? 1 : 0;
}

Rounder::Rounder(MatmulOp product, F8Recipe recipe)
    : product(product), recipe(recipe),
      split(splitOf(product.getRhs(), depthOf(product))),
      listener(product.getPlaceAttr()), builder(product, &listener),
      loc(product.getLoc()), rows(product.getLhs()), weight(product.getRhs()) {
  // Each rank has columns of the result, and sums the rows' gradient over them.
  if (split == WeightSplit::columns)
    gradAxes.push_back(MeshAxis::Tensor);
}

/// A row is one rank's but along what the weight's depth is split.
void Rounder::byRow() {
  SmallVector<MeshAxis> alongDepth, alongColumns = gradAxes;
  if (split == WeightSplit::depth)
    alongDepth.push_back(MeshAxis::Tensor);
  int64_t depth = depthOf(product);
  lhs = round(rows, amaxOverRanks(builder, loc, amaxOf(builder, loc, rows, 1),
                                  1, alongDepth));
  // The weight is read once for both of its scales.
  Value amax = amaxOverRanks(builder, loc, amaxOf(builder, loc, weight, depth),
                             depth, alongDepth);
  rhs = round(weight, amax);
  back = round(weight, amaxOverRanks(builder, loc, amaxOf(builder, loc, amax),
                                     depth, alongColumns));
}

/// Ranks of the context axis have rows of one tensor.
void Rounder::byTensor() {
  SmallVector<MeshAxis> ofRows = {MeshAxis::Context}, ofWeight;
  gradAxes.insert(gradAxes.begin(), MeshAxis::Context);
  if (split == WeightSplit::depth)
    ofRows.push_back(MeshAxis::Tensor);
  if (split != WeightSplit::none)
    ofWeight.push_back(MeshAxis::Tensor);
  lhs = round(
      rows, amaxOverRanks(builder, loc, amaxOf(builder, loc, rows), 1, ofRows));
  rhs = back =
      round(weight, amaxOverRanks(builder, loc, amaxOf(builder, loc, weight), 1,
                                  ofWeight));
}

F8MatmulOp Rounder::build() {
  if (recipe == F8Recipe::rowwise)
    byRow();
  else
    byTensor();
  Mesh mesh = meshOf(product);
  SmallVector<StringRef> axes;
  for (MeshAxis axis : gradAxes)
    if (mesh.size(axis) > 1)
      axes.push_back(spell(axis));
  return F8MatmulOp::create(builder, loc, product.getType(), recipe, lhs, rhs,
                            rows, weight, back, product.getTransposeRhs(),
                            axes.empty() ? ArrayAttr()
                                         : builder.getStrArrayAttr(axes));
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
  auto asked = parseSpelling<MatmulDtype>(dtype).value_or(MatmulDtype::Param);
  switch (unitChoice(getOperation(), unit.getValue(), kMatmulDtypeKey, asked)) {
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
  auto isMultiple = [](int64_t size) { return size % kF8SizeMultiple == 0; };
  if (!llvm::all_of(lhs, isMultiple) || !llvm::all_of(rhs, isMultiple))
    return "a size is no multiple of 16";
  if (splitOf(product.getRhs(), depthOf(product)) == WeightSplit::unknown &&
      meshOf(product).tensor() > 1)
    return "the weight is no matrix whose split is known";
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
    product.replaceAllUsesWith(Rounder(product, *recipe).build().getResult());
    product.erase();
  }
  notes.addTo(getOperation());
}
