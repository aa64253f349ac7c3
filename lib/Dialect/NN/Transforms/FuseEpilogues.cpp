// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-fuse-epilogues: what a product's library call does besides the product.

#include "FusionGraph.h"
#include "Reshapes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "llvm/ADT/STLExtras.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_FUSEEPILOGUESPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

/// cuBLASLt wants the rows of a pre-activation to be multiples of this many
/// elements.
static constexpr int64_t kRowMultiple = 8;

/// Does nn.f8_round give the operand, or what lies side by side in it?
static bool isRounded(Value operand) {
  if (auto concat = operand.getDefiningOp<ConcatOp>())
    operand = concat.getOperand(0);
  return operand.getDefiningOp<F8RoundOp>() != nullptr;
}

/// Whether GELU, or its gradient, at a product's result may be the library's:
/// good to 11 bits or so (tanh.approx), which 16-bit floats do not see. What
/// follows a product of 8 bits takes its largest values as it is computed,
/// which the library does not.
static bool mayFuseGelu(MatmulOp product) {
  Value result = product.getResult();
  return !elementType(result).isF32() &&
         shapeOf(result).back() % kRowMultiple == 0 &&
         !(isRounded(product.getLhs()) && isRounded(product.getRhs()));
}

namespace {

/// The sum of a product and its bias, once in forward and perhaps again in
/// backward.
struct BiasSum {
  SmallVector<AddOp> adds;
  Value bias;
};

/// Fuses what follows the products of one block.
class EpilogueFuser {
public:
  EpilogueFuser(Block &block, int64_t deepest)
      : block(block), deepest(deepest) {}

  void run();

private:
  bool mayAdd(MatmulOp product, Value addend, ArrayRef<AddOp> sums) const;
  bool fuseAddend(MatmulOp product);
  bool fuseBias(MatmulOp product);
  bool fuseGeluGradient(MatmulOp product);
  bool fuseBiasGradient(MatmulOp product);
  MatmulEpilogueOp create(Operation *before, MatmulOp product,
                          Epilogue epilogue, Value side);
  void replace(Value old, Value by);
  void eraseDead();

  Block &block;
  int64_t deepest; // of the products whose sums alone are fused; 0: of all
};

} // namespace

/// Calls `visit` for all that read the value or a reshape of it.
static void forEachReader(Value value,
                          llvm::function_ref<void(Operation *)> visit) {
  for (Operation *user : value.getUsers()) {
    if (isa<ReshapeOp>(user))
      forEachReader(user->getResult(0), visit);
    else
      visit(user);
  }
}

/// Products of two axes whose operands and result have one type: what
/// epilogues of forward and of activations' gradients are for.
static bool isPlain(MatmulOp product) {
  return shapeOf(product.getResult()).size() == 2 &&
         elementType(product.getResult()) == elementType(product.getLhs());
}

//===----------------------------------------------------------------------===//
// Bias, and bias with GELU
//===----------------------------------------------------------------------===//

/// The sum that is all that reads the product, or nothing.
static std::optional<BiasSum> biasSumOf(MatmulOp product) {
  BiasSum sum;
  bool fits = true;
  forEachReader(product.getResult(), [&](Operation *user) {
    auto add = dyn_cast<AddOp>(user);
    Value other;
    if (add)
      other = withoutReshapes(add.getLhs()) == product.getResult()
                  ? add.getRhs()
                  : add.getLhs();
    auto columns = shapeOf(product.getResult()).take_back();
    fits &= add && shapeOf(other) == columns &&
            shapeOf(add.getResult()).back() == columns.front() &&
            elementType(other) == elementType(product.getResult()) &&
            add.getType() == tensorType(add.getResult()) &&
            tensorType(add.getResult()).getNumElements() ==
                tensorType(product.getResult()).getNumElements() &&
            (!sum.bias || sum.bias == other);
    if (fits) {
      sum.bias = other;
      sum.adds.push_back(add);
    }
  });
  if (!fits || sum.adds.empty())
    return std::nullopt;
  llvm::sort(sum.adds, [](AddOp a, AddOp b) { return a->isBeforeInBlock(b); });
  return sum;
}

/// The first GELU of tanh's form that reads the sum.
static GeluOp firstGelu(const BiasSum &sum) {
  GeluOp first;
  for (AddOp add : sum.adds)
    forEachReader(add.getResult(), [&](Operation *user) {
      auto gelu = dyn_cast<GeluOp>(user);
      if (gelu && gelu.getTanh() && (!first || gelu->isBeforeInBlock(first)))
        first = gelu;
    });
  return first;
}

/// True if a library call reads the value, so that it has to be stored: else a
/// generated kernel adds the bias as it reads.
static bool readByCall(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    if (isa<ReshapeOp, TransposeOp, SliceOp>(user))
      return readByCall(user->getResult(0));
    return !fusion::isRowOp(user) && !fusion::isColumnSum(user);
  });
}

bool EpilogueFuser::fuseBias(MatmulOp product) {
  std::optional<BiasSum> sum;
  if (isPlain(product))
    sum = biasSumOf(product);
  if (!sum)
    return false;
  AddOp first = sum->adds.front();
  GeluOp gelu = firstGelu(*sum);
  if (!mayFuseGelu(product))
    gelu = nullptr;
  if (!gelu && llvm::none_of(sum->adds, [](AddOp add) {
        return readByCall(add.getResult());
      }))
    return false;
  MatmulEpilogueOp fused = create(
      first, product, gelu ? Epilogue::gelu_bias : Epilogue::bias, sum->bias);
  Value biased = gelu ? fused.getExtra() : fused.getResult();
  if (gelu)
    replace(gelu.getResult(), fused.getResult());
  for (AddOp add : sum->adds)
    replace(add.getResult(), biased);
  return true;
}

//===----------------------------------------------------------------------===//
// What a product is added to
//===----------------------------------------------------------------------===//

/// Is the value in memory whatever becomes of this reader: an input, what a
/// library call gives, or what one reads?
static bool isInMemory(Value value) {
  Operation *op = withoutReshapes(value).getDefiningOp();
  return !op || !fusion::isRowOp(op) || readByCall(withoutReshapes(value));
}

/// The sums, all of the same two, that alone read the value; of its rows as
/// they are. `other`: what it is added to.
static SmallVector<AddOp> sumsOf(MatmulOp product, Value &other) {
  Value value = product.getResult();
  SmallVector<AddOp> sums;
  bool fits = true;
  forEachReader(value, [&](Operation *user) {
    auto add = dyn_cast<AddOp>(user);
    if (!add) {
      fits = false;
      return;
    }
    bool left = withoutReshapes(add.getLhs()) == value;
    Value addend = left ? add.getRhs() : add.getLhs();
    fits &= addend.getType() == add.getType() &&
            elementType(addend) == elementType(value) && rankOf(addend) > 0 &&
            shapeOf(addend).back() == shapeOf(value).back() &&
            tensorType(addend).getNumElements() ==
                tensorType(value).getNumElements() &&
            withoutReshapes(addend) != value && (!other || other == addend) &&
            unitOf(add) == unitOf(product);
    other = addend;
    sums.push_back(add);
  });
  if (!fits)
    sums.clear();
  llvm::sort(sums, [](AddOp a, AddOp b) { return a->isBeforeInBlock(b); });
  return sums;
}

static int64_t depthOf(MatmulOp product) {
  return shapeOf(product.getLhs())[product.getTransposeLhs() ? 0 : 1];
}

/// The product that the value is, or a part of if all that reads the product
/// are parts; null if anything but these sums reads the value. They may be
/// written over it.
static MatmulOp productReadBy(ArrayRef<AddOp> sums, Value value) {
  if (llvm::any_of(value.getUsers(), [&](Operation *user) {
        return !llvm::is_contained(sums, dyn_cast<AddOp>(user));
      }))
    return nullptr;
  Operation *reader = nullptr;
  for (Operation *op = value.getDefiningOp();
       isa_and_nonnull<ReshapeOp, SliceOp>(op); op = value.getDefiningOp()) {
    if (reader && !value.hasOneUse())
      return nullptr;
    reader = op;
    value = op->getOperand(0);
  }
  bool free = !reader || value.hasOneUse() ||
              llvm::all_of(value.getUsers(),
                           [](Operation *user) { return isa<SliceOp>(user); });
  return free ? value.getDefiningOp<MatmulOp>() : nullptr;
}

bool EpilogueFuser::mayAdd(MatmulOp product, Value addend,
                           ArrayRef<AddOp> sums) const {
  if (deepest == 0)
    return isInMemory(addend);
  MatmulOp other = productReadBy(sums, addend);
  int64_t depth = depthOf(product);
  return other && depth <= deepest && depth <= depthOf(other) &&
         isPlain(other) && elementType(product.getResult()).isF32();
}

/// A residual sum is the library's, too: it reads one tensor more and leaves
/// one less to be written and read again.
bool EpilogueFuser::fuseAddend(MatmulOp product) {
  if (!isPlain(product))
    return false;
  Value other;
  SmallVector<AddOp> sums = sumsOf(product, other);
  if (sums.empty() || !mayAdd(product, other, sums) ||
      phaseOf(sums.front()) != phaseOf(product))
    return false;
  OpBuilder builder(sums.front());
  Value addend = withoutReshapes(other);
  if (addend.getType() != product.getType()) {
    addend = NNBuilder(builder, product.getLoc())
                 .reshape(other, shapeOf(product.getResult()));
    inheritPlace(addend.getDefiningOp(), product);
  }
  MatmulEpilogueOp fused =
      create(sums.front(), product, Epilogue::bias, addend);
  for (AddOp sum : sums)
    replace(sum.getResult(), fused.getResult());
  return true;
}

//===----------------------------------------------------------------------===//
// GELU's gradient
//===----------------------------------------------------------------------===//

namespace {

/// The ops that differentiation makes of a GELU, to be found again in a graph:
/// built by the op itself, so that its formula stands in one place.
class GeluGradient {
public:
  explicit GeluGradient(RankedTensorType type, Location loc) {
    x = scratch.addArgument(type, loc);
    g = scratch.addArgument(type, loc);
    OpBuilder builder(type.getContext());
    builder.setInsertionPointToEnd(&scratch);
    auto gelu = GeluOp::create(builder, loc, type, x, /*tanh=*/true);
    llvm::SmallBitVector needed(1, true);
    if (failed(gelu.buildVjp(builder, ValueRange{g}, needed, root)))
      root = nullptr;
  }
  ~GeluGradient() { scratch.dropAllReferences(); }

  /// If `value` is the gradient at a cotangent `from`, its GELU's operand.
  Value match(Value value, Value from) {
    operand = nullptr;
    cotangent = from;
    return root && same(root, value) ? operand : Value();
  }

private:
  bool same(Value pattern, Value actual);

  Block scratch;
  Value x, g, root;
  Value operand, cotangent;
};

} // namespace

bool GeluGradient::same(Value pattern, Value actual) {
  actual = withoutReshapes(actual);
  if (pattern == g)
    return actual == cotangent;
  if (pattern == x) {
    if (!operand)
      operand = actual;
    return actual == operand;
  }
  Operation *expected = pattern.getDefiningOp(),
            *found = actual.getDefiningOp();
  if (!found || found->getName() != expected->getName() ||
      elementType(actual) != elementType(pattern) ||
      attributesWithoutPlace(found) != attributesWithoutPlace(expected))
    return false;
  return llvm::equal(expected->getOperands(), found->getOperands(),
                     [&](Value a, Value b) { return same(a, b); });
}

/// The one op that reads the value through reshapes and casts, or null.
static MulOp onlyFactor(Value value) {
  while (value.hasOneUse()) {
    Operation *user = *value.user_begin();
    if (auto product = dyn_cast<MulOp>(user))
      return product;
    if (!isa<ReshapeOp, CastOp>(user))
      break;
    value = user->getResult(0);
  }
  return nullptr;
}

bool EpilogueFuser::fuseGeluGradient(MatmulOp product) {
  if (!isPlain(product) || !mayFuseGelu(product))
    return false;
  MulOp factor = onlyFactor(product.getResult());
  if (!factor)
    return false;
  Value gradient = factor.getResult();
  Type type = elementType(product.getResult());
  if (elementType(gradient) != type && gradient.hasOneUse())
    if (auto cast = dyn_cast<CastOp>(*gradient.user_begin()))
      gradient = cast.getResult();
  if (elementType(gradient) != type)
    return false;
  GeluGradient pattern(tensorType(gradient), product.getLoc());
  Value x = pattern.match(gradient, product.getResult());
  // What is not in memory anyway would have to be stored.
  if (!x || x.getType() != product.getType() ||
      !isa_and_nonnull<MatmulOp, MatmulEpilogueOp>(x.getDefiningOp()))
    return false;
  bool early = x.getDefiningOp()->isBeforeInBlock(product);
  MatmulEpilogueOp fused =
      create(early ? product.getOperation() : factor.getOperation(), product,
             Epilogue::dgelu, x);
  replace(gradient, fused.getResult());
  return true;
}

//===----------------------------------------------------------------------===//
// A bias's gradient
//===----------------------------------------------------------------------===//

/// A sum of all rows of the matrix, of this element type, or null.
static ReduceSumOp rowsSum(Value matrix, int64_t columns, Type element) {
  ReduceSumOp found;
  auto visit = [&](auto &self, Value value) -> void {
    forEachReader(value, [&](Operation *user) {
      if (auto cast = dyn_cast<CastOp>(user);
          cast && elementType(cast.getResult()).isF32())
        return self(self, cast.getResult());
      auto sum = dyn_cast<ReduceSumOp>(user);
      if (sum && fusion::isColumnSum(sum) &&
          shapeOf(sum.getResult()) == ArrayRef<int64_t>(columns) &&
          elementType(sum.getResult()) == element)
        found = sum;
    });
  };
  visit(visit, matrix);
  return found;
}

bool EpilogueFuser::fuseBiasGradient(MatmulOp product) {
  ArrayRef<int64_t> shape = shapeOf(product.getResult());
  if (shape.size() != 2 || product.getTransposeRhs() ||
      isRounded(product.getRhs()))
    return false;
  ReduceSumOp sum = rowsSum(withoutReshapes(product.getRhs()), shape.back(),
                            elementType(product.getResult()));
  if (!sum)
    return false;
  // Its readers come after the product, or may.
  for (Operation *user : sum->getUsers())
    if (!product->isBeforeInBlock(user) && !isa<GradOp>(user))
      return false;
  MatmulEpilogueOp fused = create(product, product, Epilogue::bgrad, Value());
  for (Operation *user : sum->getUsers())
    if (!fused->isBeforeInBlock(user))
      user->moveAfter(fused);
  sum.getResult().replaceAllUsesWith(fused.getExtra());
  product.getResult().replaceAllUsesWith(fused.getResult());
  return true;
}

//===----------------------------------------------------------------------===//
// The block
//===----------------------------------------------------------------------===//

MatmulEpilogueOp EpilogueFuser::create(Operation *before, MatmulOp product,
                                       Epilogue epilogue, Value side) {
  OpBuilder builder(before);
  auto result = tensorType(product.getResult());
  Type extra;
  if (epilogue == Epilogue::gelu_bias)
    extra = result;
  else if (epilogue == Epilogue::bgrad)
    extra = result.clone(result.getShape().take_back());
  auto fused = MatmulEpilogueOp::create(
      builder, product.getLoc(), result, extra, epilogue, product.getLhs(),
      product.getRhs(), side, product.getTransposeLhs(),
      product.getTransposeRhs());
  inheritPlace(fused, product);
  return fused;
}

/// `by` may have another shape; what reshapes back to it reads it directly.
void EpilogueFuser::replace(Value old, Value by) {
  for (Operation *user : llvm::to_vector(old.getUsers()))
    if (isa<ReshapeOp>(user) && user->getResult(0).getType() == by.getType())
      user->getResult(0).replaceAllUsesWith(by);
  if (old.getType() != by.getType()) {
    OpBuilder builder(by.getContext());
    builder.setInsertionPointAfterValue(by);
    Operation *product = by.getDefiningOp();
    by = NNBuilder(builder, by.getLoc()).reshape(by, shapeOf(old));
    inheritPlace(by.getDefiningOp(), product);
  }
  old.replaceAllUsesWith(by);
}

/// What backward computes again leaves the first computation behind, whose
/// reads are none.
void EpilogueFuser::eraseDead() {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (op.use_empty() && isMemoryEffectFree(&op) &&
        !op.hasTrait<OpTrait::IsTerminator>())
      op.erase();
}

void EpilogueFuser::run() {
  auto forEachProduct = [&](bool (EpilogueFuser::*fuse)(MatmulOp)) {
    bool fused = false;
    for (MatmulOp product : llvm::to_vector(block.getOps<MatmulOp>()))
      fused |= (this->*fuse)(product);
    if (fused)
      eraseDead();
  };
  // What only dead ops read has readers until they are gone.
  if (deepest == 0)
    eraseDead();
  forEachProduct(&EpilogueFuser::fuseAddend);
  if (deepest > 0)
    return;
  forEachProduct(&EpilogueFuser::fuseBias);
  forEachProduct(&EpilogueFuser::fuseGeluGradient);
  forEachProduct(&EpilogueFuser::fuseBiasGradient);
}

namespace {

struct FuseEpiloguesPass : nn::impl::FuseEpiloguesPassBase<FuseEpiloguesPass> {
  using FuseEpiloguesPassBase::FuseEpiloguesPassBase;
  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    for (Block &block : getOperation().getBody())
      EpilogueFuser(block, deepest).run();
  }
};

} // namespace
