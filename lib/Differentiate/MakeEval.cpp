// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-make-eval: a function that reads all it needs from its arguments and
// returns all that it computes, for `shardonnx eval`.

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Differentiate/Passes.h"

namespace shardonnx {
#define GEN_PASS_DEF_MAKEEVALPASS
#include "shardonnx/Differentiate/Passes.h.inc"
} // namespace shardonnx

using namespace mlir;
using namespace shardonnx;

namespace {

class EvalMaker {
public:
  EvalMaker(func::FuncOp function, SymbolTable &symbols)
      : function(function), symbols(symbols), builder(function),
        terminator(function.front().getTerminator()) {}

  void run();

private:
  void replaceGets(nn::ParameterOp parameter);
  void addGradient(nn::ParameterOp parameter);
  void keepOutputs();
  void eraseDead();

  struct Result {
    Value gradient;       // null: an output of the graph,
    unsigned operand = 0; // which the terminator returned at this place
    NamedAttrList attributes;
  };

  func::FuncOp function;
  SymbolTable &symbols;
  OpBuilder builder;
  Operation *terminator;
  llvm::DenseMap<Operation *, unsigned> arguments; // of parameters
  llvm::DenseMap<StringAttr, SmallVector<nn::GradOp, 1>> gradients;
  SmallVector<Result> results;
};

} // namespace

/// The parameter as the model's file holds it, which is the transpose of what
/// the ops read where the exporter had transposed it.
void EvalMaker::replaceGets(nn::ParameterOp parameter) {
  SmallVector<nn::GetOp> gets;
  for (auto get : function.getOps<nn::GetOp>())
    if (get.getParameterAttr().getAttr() == parameter.getSymNameAttr())
      gets.push_back(get);
  std::optional<uint64_t> known = parameter.getArgument();
  if (gets.empty() && !known)
    return;
  bool transposed =
      parameter.getSource() && parameter.getSource()->getTransposed();
  BlockArgument argument;
  if (known) {
    argument = function.getArgument(static_cast<unsigned>(*known));
  } else {
    auto type = cast<RankedTensorType>(gets.front().getType());
    SmallVector<int64_t> shape(type.getShape());
    if (transposed)
      std::swap(shape[0], shape[1]);
    NamedAttrList attributes;
    attributes.set(nn::kNameAttr, parameter.getOnnxNameAttr());
    attributes.set(nn::kWeightAttr, parameter.getSymNameAttr());
    if (parameter.getSource())
      attributes.set(nn::kSourceAttr, *parameter.getSource());
    unsigned index = function.getNumArguments();
    (void)function.insertArgument(
        index, RankedTensorType::get(shape, type.getElementType()),
        attributes.getDictionary(function.getContext()), parameter.getLoc());
    argument = function.getArgument(index);
  }
  arguments[parameter] = argument.getArgNumber();
  for (nn::GetOp get : gets) {
    builder.setInsertionPoint(get);
    Value value = argument;
    if (transposed)
      value = nn::NNBuilder(builder, get.getLoc()).transpose(value, {1, 0});
    get.replaceAllUsesWith(value);
    get.erase();
  }
}

void EvalMaker::addGradient(nn::ParameterOp parameter) {
  auto index = arguments.find(parameter);
  if (index == arguments.end())
    return;
  BlockArgument argument = function.getArgument(index->second);
  auto type = cast<RankedTensorType>(argument.getType());
  builder.setInsertionPoint(terminator);
  nn::NNBuilder b(builder, parameter.getLoc());
  Value gradient;
  for (nn::GradOp op : gradients.lookup(parameter.getSymNameAttr()))
    gradient = op.getValue();
  if (!gradient)
    gradient =
        b.broadcast(b.constant(0, type.getElementType()), type.getShape());
  else if (parameter.getSource() && parameter.getSource()->getTransposed())
    gradient = b.transpose(gradient, {1, 0});
  Result result;
  result.gradient = b.cast(gradient, type.getElementType());
  result.attributes.set(nn::kGradientOfAttr, parameter.getOnnxNameAttr());
  results.push_back(std::move(result));
}

/// The graph's own outputs that are still to be computed.
void EvalMaker::keepOutputs() {
  for (unsigned index = 0; index < terminator->getNumOperands(); ++index) {
    if (function.getResultAttr(index, nn::kValueAttr))
      continue;
    Result result;
    result.operand = index;
    result.attributes.append(function.getResultAttrs(index));
    results.push_back(std::move(result));
  }
}

void EvalMaker::eraseDead() {
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

void EvalMaker::run() {
  keepOutputs();
  for (auto grad : function.getOps<nn::GradOp>())
    gradients[grad.getParameterAttr().getAttr()].push_back(grad);
  auto module = function->getParentOfType<ModuleOp>();
  auto parameters = llvm::to_vector(module.getOps<nn::ParameterOp>());
  for (nn::ParameterOp parameter : parameters)
    replaceGets(parameter);
  for (nn::ParameterOp parameter : parameters)
    if (parameter.getWanted())
      addGradient(parameter);
  SmallVector<Value> values;
  SmallVector<Attribute> attributes;
  for (Result &result : results) {
    values.push_back(result.gradient ? result.gradient
                                     : terminator->getOperand(result.operand));
    attributes.push_back(
        result.attributes.getDictionary(function.getContext()));
  }
  terminator->setOperands(values);
  function.setType(builder.getFunctionType(function.getArgumentTypes(),
                                           ValueRange(values).getTypes()));
  function.setResAttrsAttr(builder.getArrayAttr(attributes));
  for (Operation &op : llvm::make_early_inc_range(function.front()))
    if (isa<nn::LossOp, nn::GradOp>(op))
      op.erase();
  for (nn::ParameterOp parameter : parameters)
    symbols.erase(parameter);
  eraseDead();
  nn::markBackward(function.front());
}

namespace {
struct MakeEvalPass : shardonnx::impl::MakeEvalPassBase<MakeEvalPass> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    auto function = symbols.lookup<func::FuncOp>("microbatch");
    if (function)
      symbols.erase(symbols.lookup("eval"));
    else
      function = symbols.lookup<func::FuncOp>("forward");
    if (!function) {
      getOperation().emitError("there is no function to evaluate");
      return signalPassFailure();
    }
    EvalMaker(function, symbols).run();
    (void)symbols.rename(function, "eval");
  }
};
} // namespace
