// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-add-adapters: what PEFT's get_peft_model does to modules, done to
// products. The optimizer, the units and the schedule see parameters like any
// others.

#include "ExpertAdapters.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shardonnx/Dialect/NN/IR/Adapters.h"
#include "shardonnx/Dialect/NN/IR/Inputs.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"
#include "shardonnx/Dialect/NN/IR/ParameterReport.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/Support/NamePattern.h"
#include "shardonnx/Support/UsageError.h"
#include "shardonnx/runtime/Lora.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/Regex.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_ADDADAPTERSPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

static constexpr llvm::StringLiteral kAllLinear = "all-linear";

/// Experts' gate and up side by side.
static constexpr llvm::StringLiteral kGateUp = ".gate_up_proj";

/// What PEFT nests a module in that has adapters of several parameters.
static constexpr llvm::StringLiteral kNested = ".base_layer";

namespace {

/// A product of rows with a parameter [in, out], or transposed [out, in].
struct Linear {
  MatmulOp product;
  ParameterOp weight;
  int64_t in() {
    return shapeOf(product.getRhs())[product.getTransposeRhs() ? 1 : 0];
  }
  int64_t out() {
    return shapeOf(product.getRhs())[product.getTransposeRhs() ? 0 : 1];
  }
};

/// What adapters are asked for.
struct Targets {
  SmallVector<Linear> linears;
  SmallVector<Experts> experts;
  /// Weights of gate and up that all-linear has named: PEFT's adapter of what
  /// once were two linear layers has both of theirs, of twice the rank.
  llvm::DenseSet<Operation *> twofold;
};

/// The module that a weight belongs to, by one of the weight's names.
StringRef moduleOf(StringRef name) {
  name.consume_back(kLoraWeight);
  return name;
}

/// Draws of dropout that a pass adds to a function.
class RandomStreams {
public:
  explicit RandomStreams(func::FuncOp function) : function(function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      if (inputKind(function, i) == InputKind::Random)
        index = i;
      else if (ArrayRef<int64_t> shape = shapeOf(function.getArgument(i));
               samples == 0 && !shape.empty())
        samples = shape[0]; // axis 0 of every input counts samples
    }
  }

  /// The value with a share of its elements zeroed; null where its rows do not
  /// belong to samples.
  Value drop(OpBuilder &builder, Location loc, Value value, double ratio) {
    if (samples == 0 || shapeOf(value)[0] % samples != 0)
      return nullptr;
    if (!index) {
      index = function.getNumArguments();
      (void)function.insertArgument(
          *index, streamsType(1),
          inputAttributes(function.getContext(), InputKind::Random),
          function.getLoc());
    }
    BlockArgument random = function.getArgument(*index);
    // The first number counts samples, then comes a key for each stream.
    int64_t stream = shapeOf(random)[0] - 1;
    random.setType(streamsType(stream + 2));
    function.setType(FunctionType::get(function.getContext(),
                                       function.getBody().getArgumentTypes(),
                                       function.getResultTypes()));
    return DropoutOp::create(builder, loc, value.getType(), value, random,
                             builder.getF64FloatAttr(ratio),
                             builder.getI64IntegerAttr(stream),
                             builder.getI64IntegerAttr(samples));
  }

private:
  RankedTensorType streamsType(int64_t count) {
    return RankedTensorType::get({count},
                                 IntegerType::get(function.getContext(), 64));
  }

  func::FuncOp function;
  std::optional<unsigned> index;
  int64_t samples = 0;
};

struct AddAdaptersPass : nn::impl::AddAdaptersPassBase<AddAdaptersPass> {
  using AddAdaptersPassBase::AddAdaptersPassBase;

  LogicalResult run(func::FuncOp function);
  SmallVector<Linear> findLinears(func::FuncOp function);
  FailureOr<Targets> chooseTargets(ArrayRef<Linear> linears,
                                   ArrayRef<Experts> experts,
                                   func::FuncOp function);
  StringRef findUnadaptable(llvm::Regex &regex, ArrayRef<Linear> linears,
                            ArrayRef<Experts> experts);
  LogicalResult adapt(Linear linear, const Lora &lora, RandomStreams &random);
  LogicalResult adaptExperts(const Targets &targets, const Lora &lora);
  LogicalResult describeParameter(ParameterOp weight, const Lora &lora,
                                  StringRef adapter, int64_t experts,
                                  bool fanInFanOut);
  ParameterOp parameter(ParameterOp beside, StringRef module, StringRef end,
                        ArrayRef<int64_t> shape, DrawKind draw);
  void freezeBase();
  void markBase(ArrayRef<Linear> linears, func::FuncOp function);

  void runOnOperation() override {
    if (rank == 0)
      return;
    auto forward = getOperation().lookupSymbol<func::FuncOp>("forward");
    if (!forward || failed(run(forward)))
      signalPassFailure();
  }

  llvm::DenseSet<Operation *> adapters;  // parameters that were added
  llvm::DenseSet<Operation *> tables;    // parameters that embeddings read
  llvm::SetVector<Attribute> parameters; // struct Lora's
};

} // namespace

SmallVector<Linear> AddAdaptersPass::findLinears(func::FuncOp function) {
  SmallVector<Linear> found;
  SymbolTable symbols(getOperation());
  for (auto product : function.getOps<MatmulOp>()) {
    auto get = product.getRhs().getDefiningOp<GetOp>();
    if (!get || rankOf(product.getRhs()) != 2 || product.getTransposeLhs())
      continue;
    auto weight = symbols.lookup<ParameterOp>(get.getParameter());
    if (weight && isa<FloatType>(elementType(product.getRhs())))
      found.push_back({product, weight});
  }
  return found;
}

/// The products behind which there is no other: what gives logits.
static llvm::DenseSet<Operation *> findHeads(ArrayRef<Linear> linears,
                                             func::FuncOp function) {
  llvm::DenseSet<Operation *> products, leads, heads;
  for (const Linear &linear : linears)
    products.insert(linear.product);
  for (Operation &op : llvm::reverse(function.getBody().front())) {
    bool led = llvm::any_of(op.getUsers(), [&](Operation *user) {
      return products.contains(user) || leads.contains(user);
    });
    if (led)
      leads.insert(&op);
    else if (products.contains(&op))
      heads.insert(&op);
  }
  return heads;
}

/// The products whose result, without another product, says which experts a
/// row goes to. They are no nn.Linear in transformers.
static llvm::DenseSet<Operation *> findRouters(ArrayRef<Linear> linears,
                                               func::FuncOp function) {
  llvm::DenseSet<Operation *> products, leads, routers;
  for (const Linear &linear : linears)
    products.insert(linear.product);
  for (Operation &op : llvm::reverse(function.getBody().front())) {
    bool chooses =
        isa<TopKOp>(op) || llvm::any_of(op.getUsers(), [&](Operation *user) {
          return leads.contains(user);
        });
    if (!chooses)
      continue;
    if (products.contains(&op))
      routers.insert(&op);
    else if (!isa<MatmulOp>(op))
      leads.insert(&op);
  }
  return routers;
}

/// What `all-linear` leaves out, and --base-dtype: heads and routers.
static llvm::DenseSet<Operation *> findOthers(ArrayRef<Linear> linears,
                                              func::FuncOp function) {
  llvm::DenseSet<Operation *> others = findHeads(linears, function);
  for (Operation *router : findRouters(linears, function))
    others.insert(router);
  return others;
}

/// A module that the regular expression names, but that is no linear layer.
StringRef AddAdaptersPass::findUnadaptable(llvm::Regex &regex,
                                           ArrayRef<Linear> linears,
                                           ArrayRef<Experts> experts) {
  llvm::DenseSet<StringRef> adaptable;
  for (Linear linear : linears)
    if (!tables.contains(linear.weight))
      for (StringRef name : namesOf(linear.weight))
        adaptable.insert(moduleOf(name));
  for (Experts stack : experts)
    for (StringRef name : namesOf(stack.weight))
      adaptable.insert(name.rsplit('.').first);
  for (auto parameter : getOperation().getOps<ParameterOp>())
    for (StringRef name : namesOf(parameter))
      if (StringRef module = name.rsplit('.').first;
          !adaptable.contains(module) && !adapters.contains(parameter) &&
          regex.match(module))
        return module;
  return {};
}

/// Whether the experts are named, as PEFT's target_parameters does or by their
/// module.
static bool namesExperts(llvm::Regex &regex, ParameterOp weight) {
  return llvm::any_of(namesOf(weight), [&](StringRef name) {
    return regex.match(name) || regex.match(name.rsplit('.').first);
  });
}

/// Matrices that all-linear leaves out, because no row looks one up.
static void warnOfOtherStacks(func::FuncOp function,
                              ArrayRef<Experts> experts) {
  llvm::DenseSet<Operation *> known;
  for (Experts stack : experts)
    known.insert(stack.weight);
  for (auto parameter :
       function->getParentOfType<ModuleOp>().getOps<ParameterOp>())
    if (parameter.getSymName().contains("experts.") &&
        cast<RankedTensorType>(parameter.getType()).getRank() == 3 &&
        !known.contains(parameter)) {
      function.emitWarning() << "--lora-targets=all-linear does not adapt '"
                             << parameter.getSymName()
                             << "' and its like: they are no matrices that "
                                "rows choose from";
      return;
    }
}

/// What to write instead of a target that matches nothing: of the ends of
/// paths, which PEFT takes in a list, the expression.
static std::string remedyFor(StringRef target) {
  bool ends = llvm::all_of(
      target, [](char c) { return llvm::isAlnum(c) || c == '_' || c == ','; });
  if (!ends)
    return "shardonnx inspect --parameters lists the names of the weights, and "
           "a path is one without .weight";
  std::string choices = target.str();
  llvm::replace(choices, ',', '|');
  return "modules of any path that ends so are '.*\\.(" + choices + ")'";
}

FailureOr<Targets> AddAdaptersPass::chooseTargets(ArrayRef<Linear> linears,
                                                  ArrayRef<Experts> experts,
                                                  func::FuncOp function) {
  llvm::DenseSet<Operation *> heads = findHeads(linears, function), chosen;
  Targets result;
  for (const std::string &target : targets) {
    llvm::Regex regex = wholeName(target);
    std::string why;
    bool all = target == kAllLinear, matched = false;
    if (!all && !regex.isValid(why))
      return emitUsageError(function)
             << "--lora-targets: '" << target
             << "' is not a regular expression: " << why;
    for (const Linear &linear : linears) {
      if (all ? heads.contains(linear.product)
              : llvm::none_of(namesOf(linear.weight), [&](StringRef name) {
                  return regex.match(moduleOf(name));
                }))
        continue;
      matched = true;
      chosen.insert(linear.product);
    }
    for (Experts stack : experts) {
      if (!all && !namesExperts(regex, stack.weight))
        continue;
      matched = true;
      chosen.insert(stack.chosen.product);
      if (all && namesOf(stack.weight).front().ends_with(kGateUp))
        result.twofold.insert(stack.weight);
    }
    if (all)
      warnOfOtherStacks(function, experts);
    StringRef other = all ? "" : findUnadaptable(regex, linears, experts);
    if (!other.empty())
      return emitUsageError(function)
             << "--lora-targets: '" << target << "' names '" << other
             << "', which is no linear layer (an embedding or what shares its "
                "weight, a convolution or a norm), and adapters stand beside "
                "linear layers and experts alone; name those, and what else is "
                "trained by a --freeze=REGEX that leaves it out";
    if (!matched)
      return emitUsageError(function)
             << "--lora-targets: "
             << (all ? "the graph has no linear layer but its head"
                     : "no linear layer's whole path matches '" + target +
                           "'; " + remedyFor(target));
  }
  llvm::copy_if(linears, std::back_inserter(result.linears),
                [&](Linear linear) { return chosen.contains(linear.product); });
  llvm::copy_if(
      experts, std::back_inserter(result.experts),
      [&](Experts stack) { return chosen.contains(stack.chosen.product); });
  return result;
}

/// The parameter `lora_A` or `lora_B` of the module, the same for all products
/// that read the module's weight.
ParameterOp AddAdaptersPass::parameter(ParameterOp beside, StringRef module,
                                       StringRef end, ArrayRef<int64_t> shape,
                                       DrawKind draw) {
  std::string name = (module + end).str();
  if (auto known = getOperation().lookupSymbol<ParameterOp>(name))
    return known;
  OpBuilder builder(beside->getContext());
  builder.setInsertionPointAfter(beside);
  Type element = cast<RankedTensorType>(beside.getType()).getElementType();
  auto made = ParameterOp::create(
      builder, beside.getLoc(), builder.getStringAttr(name),
      TypeAttr::get(RankedTensorType::get(shape, element)),
      builder.getUnitAttr(), builder.getStringAttr(name), ExternalAttr(),
      ArrayAttr(), FloatAttr(), IntegerAttr());
  made->setAttr(kDrawAttr, builder.getStringAttr(spell(draw)));
  made.setPlaceAttr(beside.getPlaceAttr());
  adapters.insert(made);
  return made;
}

/// m / |W + s·B·A|, the lengths of rows [out]. Multiplied out, no matrix of the
/// weight's size is made: |W + s·B·A|² = |W|² + 2s·W·Aᵀ∘B + s²·B·(A·Aᵀ)∘B.
static Value rowScale(NNBuilder &nn, Linear linear, Value a, Value b, Value m,
                      double scaling) {
  bool stored = linear.product.getTransposeRhs(); // [out, in]
  Value w = linear.product.getRhs();
  auto product = [&](Value lhs, Value rhs, bool transposeLhs,
                     bool transposeRhs) -> Value {
    return MatmulOp::create(nn.builder, nn.loc, lhs, rhs, transposeLhs,
                            transposeRhs);
  };
  auto rows = [&](Value x, Value y, int64_t axis) {
    return nn.sum(nn.f32(nn.mul(x, y)), {axis}, /*keepdims=*/false);
  };
  Value square = rows(w, w, stored ? 1 : 0);
  Value mixed = rows(product(w, a, !stored, true), b, 1);
  Value small =
      rows(product(b, product(a, a, false, true), false, false), b, 1);
  Value sum = nn.add(nn.add(square, nn.mul(mixed, 2 * scaling)),
                     nn.mul(small, scaling * scaling));
  Value length = nn.unary<StopGradientOp>(nn.unary<SqrtOp>(sum));
  return nn.div(nn.f32(m), length);
}

/// What takes the product's place: x·W + `added`, with the rows of the weight
/// at their new lengths. `dropped` is what the adapter reads of x.
static Value scaleRows(NNBuilder &nn, Linear linear, Value scale, Value dropped,
                       Value added) {
  MatmulOp product = linear.product;
  Value result = product.getResult(), base = result;
  bool drops = dropped != product.getLhs();
  if (drops)
    base = MatmulOp::create(nn.builder, nn.loc, dropped, product.getRhs(),
                            /*transposeLhs=*/false, product.getTransposeRhs());
  Value wide =
      nn.broadcast(nn.cast(scale, elementType(result)), shapeOf(result));
  Value scaled = nn.mul(nn.add(base, added), wide);
  return drops ? nn.add(nn.sub(result, base), scaled) : scaled;
}

LogicalResult AddAdaptersPass::adapt(Linear linear, const Lora &lora,
                                     RandomStreams &random) {
  MatmulOp product = linear.product;
  StringRef module = moduleOf(namesOf(linear.weight).front());
  ParameterOp a = parameter(linear.weight, module, kLoraA, {rank, linear.in()},
                            DrawKind::UniformFanIn);
  ParameterOp b = parameter(linear.weight, module, kLoraB, {linear.out(), rank},
                            DrawKind::Zeros);
  PlaceListener listener(product.getPlaceAttr());
  OpBuilder builder(product->getContext(), &listener);
  builder.setInsertionPointAfter(product);
  NNBuilder nn(builder, product.getLoc());
  auto get = [&](ParameterOp parameter) {
    return GetOp::create(builder, product.getLoc(), parameter.getType(),
                         FlatSymbolRefAttr::get(parameter));
  };
  Value rows = product.getLhs();
  if (lora.dropout > 0)
    rows = random.drop(builder, product.getLoc(), rows, lora.dropout);
  if (!rows)
    return emitUsageError(product)
           << "--lora: axis 0 of what the adapter of '"
           << linear.weight.getSymName()
           << "' reads does not count samples, so ranks cannot draw their "
              "masks apart; leave dropout out";
  // The scale is on the small side: what is added is then a product alone.
  Value down = get(a), up = get(b);
  Value small = MatmulOp::create(builder, product.getLoc(), rows, down,
                                 /*transposeLhs=*/false, /*transposeRhs=*/true);
  Value large =
      MatmulOp::create(builder, product.getLoc(), nn.mul(small, lora.scaling()),
                       up, /*transposeLhs=*/false, /*transposeRhs=*/true);
  llvm::SmallPtrSet<Operation *, 4> own;
  Value sum;
  if (lora.dora) {
    Value magnitude = get(parameter(linear.weight, module, kLoraMagnitude,
                                    {linear.out()}, DrawKind::RowLengths));
    Value scale = rowScale(nn, linear, down, up, magnitude, lora.scaling());
    llvm::SmallPtrSet<Operation *, 4> before(product->user_begin(),
                                             product->user_end());
    sum = scaleRows(nn, linear, scale, rows, large);
    for (Operation *user : product->getUsers())
      if (!before.contains(user))
        own.insert(user);
  } else {
    sum = nn.add(product.getResult(), large);
    own.insert(sum.getDefiningOp());
  }
  product.getResult().replaceUsesWithIf(
      sum, [&](OpOperand &use) { return !own.contains(use.getOwner()); });
  return success();
}

/// Notes that PEFT adapts the weight as a parameter, which knows neither
/// dropout nor lengths.
LogicalResult AddAdaptersPass::describeParameter(ParameterOp weight,
                                                 const Lora &lora,
                                                 StringRef adapter,
                                                 int64_t experts,
                                                 bool fanInFanOut) {
  StringRef name = namesOf(weight).front();
  if (lora.dropout > 0 || lora.dora)
    return emitUsageError(weight)
           << "--lora: '" << name << "' is "
           << (experts > 1 ? "experts in one tensor" : "a router")
           << ", whose adapter has no " << (lora.dora ? "dora" : "dropout")
           << " (nor has PEFT's); leave it out, or have a "
              "--lora-targets=REGEX name linear layers alone";
  Builder b(&getContext());
  NamedAttrList said;
  said.set("weight", b.getStringAttr(name));
  said.set("adapter", b.getStringAttr(adapter));
  said.set("experts", b.getI64IntegerAttr(experts));
  said.set("rank", b.getI64IntegerAttr(lora.rank));
  said.set("alpha", b.getF64FloatAttr(lora.alpha));
  said.set("fan_in_fan_out", b.getBoolAttr(fanInFanOut));
  parameters.insert(said.getDictionary(&getContext()));
  return success();
}

/// PEFT wraps a module once for each of its parameters that has an adapter, in
/// the order in which the module has them.
static llvm::MapVector<Operation *, std::string>
nestExperts(ModuleOp module, ArrayRef<Experts> experts) {
  llvm::DenseSet<Operation *> chosen;
  for (Experts stack : experts)
    chosen.insert(stack.weight);
  llvm::MapVector<StringRef, SmallVector<Operation *>> weights;
  for (auto weight : module.getOps<ParameterOp>())
    if (chosen.contains(weight))
      weights[namesOf(weight).front().rsplit('.').first].push_back(weight);
  llvm::MapVector<Operation *, std::string> paths;
  for (auto &[path, inside] : weights)
    for (auto [i, weight] : llvm::enumerate(inside)) {
      paths[weight] = path.str();
      for (size_t outer = i + 1; outer < inside.size(); ++outer)
        paths[weight] += kNested;
    }
  return paths;
}

LogicalResult AddAdaptersPass::adaptExperts(const Targets &targets,
                                            const Lora &lora) {
  llvm::MapVector<Operation *, std::string> paths =
      nestExperts(getOperation(), targets.experts);
  for (Experts stack : targets.experts) {
    Lora own = lora;
    if (targets.twofold.contains(stack.weight)) {
      own.rank *= 2;
      own.alpha *= 2;
    }
    const std::string &path = paths[stack.weight];
    int64_t all = stack.chosen.experts() * own.rank;
    ParameterOp a = parameter(stack.weight, path, kLoraA,
                              {all, stack.chosen.in()}, DrawKind::UniformFanIn);
    ParameterOp b = parameter(stack.weight, path, kLoraB,
                              {stack.chosen.out(), all}, DrawKind::Zeros);
    addExpertAdapter(stack, a, b, own.scaling());
    if (failed(describeParameter(stack.weight, own, path,
                                 stack.chosen.experts(),
                                 !stack.chosen.transposed())))
      return failure();
  }
  return success();
}

void AddAdaptersPass::freezeBase() {
  for (auto parameter : getOperation().getOps<ParameterOp>()) {
    if (!parameter.getTrainable() || adapters.contains(parameter))
      continue;
    parameter.setTrainable(false);
    noteUntrained(getOperation(), parameter.getSymName(), "--lora",
                  /*asked=*/true);
  }
}

/// What bitsandbytes makes of a model: every linear layer but the head and
/// routers.
void AddAdaptersPass::markBase(ArrayRef<Linear> linears,
                               func::FuncOp function) {
  llvm::DenseSet<Operation *> others = findOthers(linears, function), kept;
  for (const Linear &linear : linears)
    if (others.contains(linear.product))
      kept.insert(linear.weight);
  for (Linear linear : linears)
    if (!kept.contains(linear.weight))
      linear.weight->setAttr(kBaseAttr, UnitAttr::get(&getContext()));
}

LogicalResult AddAdaptersPass::run(func::FuncOp function) {
  for (auto embedding : function.getOps<EmbeddingOp>())
    if (auto get = embedding.getTable().getDefiningOp<GetOp>())
      tables.insert(getOperation().lookupSymbol(get.getParameterAttr()));
  Lora lora;
  lora.rank = rank;
  lora.alpha = alpha;
  lora.dropout = dropout;
  lora.rslora = rslora;
  lora.dora = dora;
  SmallVector<Linear> linears = findLinears(function);
  FailureOr<Targets> chosen =
      chooseTargets(linears, findExperts(function), function);
  if (failed(chosen))
    return failure();
  markBase(linears, function);
  RandomStreams random(function);
  llvm::SetVector<StringRef> transposed;
  llvm::DenseSet<Operation *> routers = findRouters(linears, function);
  for (Linear linear : chosen->linears) {
    StringRef module = moduleOf(namesOf(linear.weight).front());
    if (routers.contains(linear.product) &&
        failed(describeParameter(linear.weight, lora, module, /*experts=*/1,
                                 !linear.product.getTransposeRhs())))
      return failure();
    if (failed(adapt(linear, lora, random)))
      return failure();
    if (!linear.product.getTransposeRhs())
      transposed.insert(module);
  }
  if (failed(adaptExperts(*chosen, lora)))
    return failure();
  if (freezesBase)
    freezeBase();
  Builder b(&getContext());
  NamedAttrList said;
  said.set("rank", b.getI64IntegerAttr(rank));
  said.set("alpha", b.getF64FloatAttr(alpha));
  said.set("dropout", b.getF64FloatAttr(dropout));
  said.set("rslora", b.getBoolAttr(rslora));
  said.set("dora", b.getBoolAttr(dora));
  said.set("fan_in_fan_out", b.getStrArrayAttr(transposed.getArrayRef()));
  said.set("parameters", b.getArrayAttr(parameters.getArrayRef()));
  getOperation()->setAttr(kLoraAttr, said.getDictionary(&getContext()));
  return success();
}
