// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-assign-dtypes: mixed precision on the forward graph, unit by unit. One
// sweep in order: where an op stands decides what it computes in.

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shardonnx/Dialect/NN/IR/Inputs.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNConvolution.h"
#include "shardonnx/Dialect/NN/IR/UnitPolicy.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/Support/ElementType.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_ASSIGNDTYPESPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

static bool isFloat(Value value) { return isa<FloatType>(elementType(value)); }

static bool isF32(Value value) { return elementType(value).isF32(); }

/// A copy of `value` in another element type, right before `user`.
static Value castBefore(Operation *user, Value value, Type type) {
  // Between the two narrow types there is no step but through f32.
  if (!isF32(value) && !type.isF32() && elementType(value) != type)
    value = castBefore(user, value, Float32Type::get(user->getContext()));
  OpBuilder builder(user);
  Value result = NNBuilder(builder, user->getLoc()).cast(value, type);
  if (result != value)
    inheritPlace(result.getDefiningOp(), user);
  return result;
}

/// Casts float operands among `operands` to `type`.
static void castFloats(Operation *op, MutableArrayRef<OpOperand> operands,
                       Type type) {
  for (OpOperand &operand : operands)
    if (isFloat(operand.get()))
      operand.set(castBefore(op, operand.get(), type));
}

static void setElementType(Value value, Type type) {
  value.setType(tensorType(value).clone(type));
}

/// Operands that a library call or a norm reads in the low type; the others
/// (tables, masks, statistics) stay.
static unsigned numLowOperands(Operation *op) {
  if (isa<MatmulOp, DepthwiseConvOp, LayerNormOp, RmsNormOp,
          LinearCrossEntropyOp>(op))
    return op->getNumOperands();
  if (isa<AttentionOp>(op))
    return 3;
  return 1;
}

/// An op whose first result follows its first operands' type, and whose other
/// results are f32 always.
static bool isNamedOp(Operation *op) {
  return isa<MatmulOp, DepthwiseConvOp, LayerNormOp, RmsNormOp, SoftmaxOp,
             LogSoftmaxOp, AttentionOp, RotaryOp, EmbeddingOp,
             LinearCrossEntropyOp>(op);
}

/// Losses compute in f32 from any type.
static bool isLoss(Operation *op) {
  return isa<CrossEntropyOp, LinearCrossEntropyOp, MseOp, LossOp>(op);
}

static void assignNamed(Operation *op, Type type) {
  castFloats(op, op->getOpOperands().take_front(numLowOperands(op)), type);
  if (isa<AttentionOp>(op)) // a trained mask, or a sink, comes in the low type
    castFloats(op, op->getOpOperands().drop_front(3),
               Float32Type::get(op->getContext()));
  if (!isLoss(op))
    setElementType(op->getResult(0), type);
}

/// An elementwise op of operands in several types computes in f32 and is
/// rounded, as PyTorch does with a scalar; one of operands in `type` alone is
/// computed in it. Returns what holds the result.
static Value assignElementwise(Operation *op, Type type) {
  Value result = op->getResult(0);
  bool mixed = llvm::any_of(op->getOperands(), [&](Value operand) {
    return isFloat(operand) && elementType(operand) != type;
  });
  if (!mixed) {
    if (isFloat(result))
      setElementType(result, type);
    return result;
  }
  Type wide = Float32Type::get(op->getContext());
  castFloats(op, op->getOpOperands(), wide);
  if (!isFloat(result))
    return result;
  setElementType(result, wide);
  if (type == wide)
    return result;
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  auto rounded = CastOp::create(builder, op->getLoc(),
                                tensorType(result).clone(type), result);
  inheritPlace(rounded, op);
  result.replaceAllUsesExcept(rounded, rounded);
  return rounded;
}

/// Moves and reductions: the operands' type. Joined tensors must agree.
static void assignShapeOp(Operation *op, Type type) {
  castFloats(op, op->getOpOperands(), type);
  for (Value result : op->getResults())
    if (isFloat(result))
      setElementType(result, type);
}

namespace {

/// FSDP2's MixedPrecisionPolicy of a unit.
struct Precision {
  Type param, output; // output: null where it stays as computed
  bool castInputs = true;
};

/// The sweep over one function.
class DtypeAssigner {
public:
  DtypeAssigner(func::FuncOp function, Precision program)
      : function(function), program(program) {}

  void run();

private:
  StringRef unitOf(Operation *op) const;
  const Precision &precisionOf(StringRef unit);
  void castInputs();
  void enter(Operation *op);
  Value crossing(Operation *user, Value value, StringRef from, StringRef to);
  Type computeType(Operation *op);
  void assign(Operation *op);
  void noteResult(Value value) { activations.insert(value); }
  void castOutputs();
  void widenParameters();

  func::FuncOp function;
  Precision program;
  llvm::StringMap<Precision> precisions;
  /// Floats that depend on a parameter or an input, unless the graph itself
  /// asked for f32; the others (tables, masks, statistics) keep their type.
  llvm::DenseSet<Value> activations;
  /// Casts at the edge of a unit, by value and unit.
  llvm::DenseMap<std::pair<Value, StringRef>, Value> entered;
};

} // namespace

static constexpr StringLiteral kRoot = "root";

StringRef DtypeAssigner::unitOf(Operation *op) const {
  FlatSymbolRefAttr unit = nn::unitOf(op);
  return unit ? unit.getValue() : StringRef(kRoot);
}

const Precision &DtypeAssigner::precisionOf(StringRef unit) {
  auto [it, isNew] = precisions.try_emplace(unit, program);
  Precision &precision = it->second;
  if (!isNew)
    return precision;
  if (unit != kRoot)
    precision.output = nullptr; // --output-dtype is the whole graph's
  auto setting = [&](StringRef key) {
    return unitSetting(function, unit, key);
  };
  if (auto type = dyn_cast_or_null<TypeAttr>(setting(kParamDtypeKey)))
    precision.param = type.getValue();
  if (auto type = dyn_cast_or_null<TypeAttr>(setting(kOutputDtypeKey)))
    precision.output = type.getValue();
  if (auto cast = dyn_cast_or_null<BoolAttr>(setting(kCastInputsKey)))
    precision.castInputs = cast.getValue();
  return precision;
}

/// Float arguments enter the model in the root's type. What a loss is compared
/// with is no input of a module.
void DtypeAssigner::castInputs() {
  const Precision &root = precisionOf(kRoot);
  OpBuilder builder(function.getBody());
  for (BlockArgument argument : function.getArguments()) {
    if (!isF32(argument) || argument.use_empty() ||
        inputKind(function, argument.getArgNumber()) == InputKind::Labels)
      continue;
    noteResult(argument);
    if (!root.castInputs || root.param.isF32())
      continue;
    auto cast =
        CastOp::create(builder, argument.getLoc(),
                       tensorType(argument).clone(root.param), argument);
    argument.replaceAllUsesExcept(cast, cast);
    noteResult(cast);
  }
}

/// Whether module `inner` is `outer` or lies in it.
static bool isInside(StringRef inner, StringRef outer) {
  return outer == kRoot || inner == outer ||
         (inner.consume_front(outer) && inner.starts_with("."));
}

/// `value`, made in the unit `from`, as `user` in the unit `to` gets it.
Value DtypeAssigner::crossing(Operation *user, Value value, StringRef from,
                              StringRef to) {
  Value &known = entered[{value, to}];
  if (known)
    return known;
  Value result = value;
  if (!isInside(to, from))
    if (Type output = precisionOf(from).output)
      result = castBefore(user, result, output);
  // A model has the arguments from outside.
  bool enters = !isInside(from, to);
  const Precision &precision = precisionOf(to);
  if (enters && precision.castInputs && !isLoss(user))
    result = castBefore(user, result, precision.param);
  noteResult(result);
  // A loss takes any type: what it gets is not what others would.
  return isLoss(user) ? result : known = result;
}

/// Casts floats that come from other units.
void DtypeAssigner::enter(Operation *op) {
  StringRef unit = unitOf(op);
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    Operation *def = value.getDefiningOp();
    if (!activations.contains(value) || !isFloat(value) ||
        isa_and_nonnull<GetOp>(def))
      continue;
    StringRef from = def ? unitOf(def) : StringRef("");
    if (from != unit)
      operand.set(crossing(op, value, from, unit));
  }
}

/// A unit computes in its param_dtype; one that takes its inputs as they come
/// does so where it reads parameters.
Type DtypeAssigner::computeType(Operation *op) {
  const Precision &precision = precisionOf(unitOf(op));
  if (precision.castInputs)
    return precision.param;
  Type widest;
  for (Value operand : op->getOperands()) {
    if (isNamedOp(op) && isParameterView(operand))
      return precision.param;
    if (!activations.contains(operand) || !isFloat(operand))
      continue;
    Type type = elementType(operand);
    widest =
        !widest || widest == type ? type : Float32Type::get(op->getContext());
  }
  return widest ? widest : precision.param;
}

void DtypeAssigner::assign(Operation *op) {
  if (auto get = dyn_cast<GetOp>(op)) {
    if (isF32(get.getResult()))
      setElementType(get.getResult(), precisionOf(unitOf(op)).param);
    return noteResult(get.getResult());
  }
  enter(op);
  bool touched = llvm::any_of(op->getOperands(), [&](Value value) {
    return activations.contains(value);
  });
  if (!touched)
    return;
  Type type = computeType(op);
  if (isa<CastOp>(op)) {
    // What the graph itself wants in f32 stays so.
    if (elementType(op->getResult(0)) == type)
      noteResult(op->getResult(0));
  } else if (isNamedOp(op)) {
    assignNamed(op, type);
    noteResult(op->getResult(0));
  } else if (isLoss(op)) {
    // What a graph has computed as its loss is reported in f32.
    if (isa<LossOp>(op))
      castFloats(op, op->getOpOperands(), Float32Type::get(op->getContext()));
  } else if (isa<ElementwiseOpInterface>(op)) {
    noteResult(assignElementwise(op, type));
  } else {
    assignShapeOp(op, type);
    for (Value result : op->getResults())
      noteResult(result);
  }
}

/// Casts the float outputs that are left, and corrects the function's type.
void DtypeAssigner::castOutputs() {
  Operation *terminator = function.getBody().front().getTerminator();
  enter(terminator);
  if (Type output = precisionOf(kRoot).output)
    castFloats(terminator, terminator->getOpOperands(), output);
  function.setFunctionType(
      FunctionType::get(function.getContext(), function.getArgumentTypes(),
                        TypeRange(terminator->getOperandTypes())));
}

/// A unit is gathered in one type, the widest that the graph reads a parameter
/// of it in: those that it reads in a narrower one are cast.
void DtypeAssigner::widenParameters() {
  llvm::StringMap<Type> widest;
  auto gets = llvm::to_vector(function.getBody().front().getOps<GetOp>());
  for (GetOp get : gets) {
    Type &wide = widest[unitOf(get)], type = elementType(get.getResult());
    if (!wide || wide == type)
      wide = type;
    else
      wide = Float32Type::get(get.getContext());
  }
  for (GetOp get : gets) {
    Value value = get.getResult();
    Type wide = widest[unitOf(get)], type = elementType(value);
    if (type == wide || !isFloat(value))
      continue;
    setElementType(value, wide);
    OpBuilder builder(get->getContext());
    builder.setInsertionPointAfter(get);
    auto narrow = CastOp::create(builder, get.getLoc(),
                                 tensorType(value).clone(type), value);
    inheritPlace(narrow, get);
    value.replaceAllUsesExcept(narrow, narrow);
  }
}

void DtypeAssigner::run() {
  // Without a policy, f32 leaves the graph as it was exported.
  if (!program.param.isF32() ||
      function->getParentOp()->hasAttr(kUnitPoliciesAttr)) {
    castInputs();
    for (Operation &op : llvm::make_early_inc_range(function.getBody().front()))
      if (!op.hasTrait<OpTrait::IsTerminator>())
        assign(&op);
  }
  castOutputs();
  widenParameters();
}

namespace {
struct AssignDtypesPass : nn::impl::AssignDtypesPassBase<AssignDtypesPass> {
  using AssignDtypesPassBase::AssignDtypesPassBase;

  FailureOr<Type> parse(StringRef option, StringRef name) {
    std::optional<ShxDType> dtype = parseSpelling<ShxDType>(name);
    if (dtype && llvm::is_contained(floatTypes(), *dtype))
      return typeOfDtype(&getContext(), *dtype);
    return getOperation().emitError("--")
           << option << '=' << name << " is unknown; it is "
           << describeWords(spellAll(floatTypes()));
  }

  void runOnOperation() override {
    FailureOr<Type> param = parse("param-dtype", paramDtype);
    FailureOr<Type> reduce = parse("reduce-dtype", reduceDtype);
    FailureOr<Type> output = outputDtype.empty()
                                 ? FailureOr<Type>(Type())
                                 : parse("output-dtype", outputDtype);
    if (failed(param) || failed(reduce) || failed(output))
      return signalPassFailure();
    getOperation()->setAttr(kReduceDtypeAttr, TypeAttr::get(*reduce));
    for (auto function : getOperation().getOps<func::FuncOp>())
      DtypeAssigner(function, {*param, *output}).run();
  }
};
} // namespace
