// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks the graph in order: nodes of known inputs are computed, the others are
// lowered by the handler of their op type.

#include "Graph.h"

#include "Handlers.h"
#include "Interpret.h"
#include "Quantization.h"
#include "Random.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "shardonnx/Dialect/NN/IR/ParameterReport.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"
#include "shardonnx/Dialect/ONNX/IR/Untrained.h"

using namespace mlir;

namespace shardonnx {
namespace {

class GraphLowering {
public:
  GraphLowering(func::FuncOp function, const LoweringOptions &options)
      : function(function), module(function->getParentOfType<ModuleOp>()),
        builder(function.getContext(), &listener), initializers(module),
        draws(options.dropout), signature(function, options),
        l(builder, initializers, refusals, draws) {}

  LogicalResult run();

private:
  void lowerNode(onnx::NodeOp node);
  bool evaluate(onnx::NodeOp node);
  bool isCompilable(onnx::NodeOp node);
  bool isStrict() const { return module->hasAttr(nn::kStrictAttr); }
  bool isComputed(Type element) const;
  std::string strangeInput(onnx::NodeOp node);
  std::string strangeResult(onnx::NodeOp node);
  LogicalResult lowerData(onnx::NodeOp node);
  LogicalResult checkLowered(onnx::NodeOp node, Operation *before);
  bool setNothing(onnx::NodeOp node);
  LogicalResult lowerKnown(onnx::NodeOp node);
  LogicalResult checkOutputs();
  void finish(std::unique_ptr<Block> entry);

  func::FuncOp function;
  ModuleOp module;
  nn::PlaceListener listener; // of the module of the node that is lowered
  OpBuilder builder;
  Initializers initializers;
  Refusals refusals;
  RandomDraws draws;
  Signature signature;
  Lowering l;
};

/// The shape of a tensor, or a part of it, or how many elements it has.
HostTensor evaluateShape(onnx::NodeOp node, ArrayRef<int64_t> shape) {
  Type i64 = IntegerType::get(node.getContext(), 64);
  if (node.getOpType() == "Size")
    return HostTensor::ints({}, {ShapedType::getNumElements(shape)}, i64);
  auto rank = static_cast<int64_t>(shape.size());
  SliceBounds bounds =
      clampSlice(node.getInt("start", 0), node.getInt("end", rank), 1, rank);
  return HostTensor::ints({bounds.size}, shape.slice(bounds.start, bounds.size),
                          i64);
}

/// Computes a node whose inputs are all known.
bool GraphLowering::evaluate(onnx::NodeOp node) {
  if (node.getOpType() == "Shape" || node.getOpType() == "Size") {
    l.setConstant(node->getResult(0),
                  evaluateShape(node, l.getShape(node.getInput(0))));
    return true;
  }
  SmallVector<const HostTensor *> inputs;
  for (auto [i, input] : llvm::enumerate(node.getInputs())) {
    bool needed = !isa<NoneType>(input.getType()) &&
                  !(node.getOpType() == "CastLike" && i == 1);
    inputs.push_back(needed ? l.getConstant(input) : nullptr);
    if (needed && !inputs.back())
      return false;
  }
  HostOutputs outputs;
  if (Evaluator evaluator = findEvaluator(node.getOpType()))
    outputs = evaluator(node, inputs);
  else
    outputs = interpretLowering(node, inputs);
  if (!outputs || outputs->size() < node->getNumResults())
    return false;
  for (auto [result, value] : llvm::zip(node->getResults(), *outputs))
    l.setConstant(result, std::move(value));
  return true;
}

/// Whether programs compute with elements of this type.
bool isOfProgram(Type element) {
  return element.isF32() || element.isF16() || element.isBF16() ||
         element.isSignlessInteger(1) || element.isSignlessInteger(32) ||
         element.isSignlessInteger(64);
}

/// Whether they do once nn-demote-f64 has run. A graph that is run as it is
/// keeps its types.
bool GraphLowering::isComputed(Type element) const {
  return isOfProgram(element) ||
         (element.isF64() && !isStrict() && !module->hasAttr(kEvaluateAttr));
}

/// Whether all that a node reads and makes can be in a program. A known scalar
/// can, whatever its type: handlers read it (Dropout's ratio may be f64). A
/// slice of nothing is known, and joining what is known to be empty is nothing.
bool GraphLowering::isCompilable(onnx::NodeOp node) {
  bool emptyToo = module->hasAttr(kDifferentiateAttr);
  bool joins = emptyToo || node.getOpType() == "Concat";
  bool cuts =
      emptyToo || node.getOpType() == "Slice" || node.getOpType() == "Split";
  bool numbers = isOfNumbers(l, node);
  auto isStrange = [this, numbers](ShapedType type) {
    return !numbers && !isComputed(type.getElementType());
  };
  for (Value input : node.getInputs()) {
    auto type = dyn_cast<ShapedType>(input.getType());
    if (!type)
      continue;
    ArrayRef<int64_t> shape = l.getShape(input);
    bool empty = llvm::is_contained(shape, 0);
    // Known integers say sizes or axes: none of them. Below opset 13 a Resize
    // to given sizes has a region and scales without elements.
    bool lists = (isa<IntegerType>(type.getElementType()) ||
                  node.getOpType() == "Resize") &&
                 shape.size() == 1;
    if (empty && (joins || lists) && l.getConstant(input))
      continue;
    if ((empty && !emptyToo) ||
        (isStrange(type) && !(shape.empty() && l.getConstant(input))))
      return false;
  }
  return llvm::all_of(node.getResultTypes(), [&](Type result) {
    auto type = dyn_cast<ShapedType>(result);
    return !type || (!isStrange(type) &&
                     (cuts || !(type.hasRank() &&
                                llvm::is_contained(type.getShape(), 0))));
  });
}

std::string typeName(Type element) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (element.isUnsignedInteger())
    stream << 'u' << element.getIntOrFloatBitWidth();
  else
    stream << element;
  return text;
}

/// The first of what the node reads that is an input of the graph and can be in
/// no program, and its type; empty where there is none.
std::string GraphLowering::strangeInput(onnx::NodeOp node) {
  for (Value input : node.getInputs()) {
    auto argument = dyn_cast<BlockArgument>(input);
    auto type = dyn_cast<ShapedType>(input.getType());
    if (!argument || !type || isComputed(type.getElementType()))
      continue;
    auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                      "onnx.name");
    return (name ? "'" + name.str() + "' of type " : "") +
           typeName(type.getElementType());
  }
  return "";
}

/// The type of the first result that can be in no program, empty where all can.
std::string GraphLowering::strangeResult(onnx::NodeOp node) {
  for (Type result : node.getResultTypes()) {
    auto type = dyn_cast<ShapedType>(result);
    if (type && !isComputed(type.getElementType()))
      return typeName(type.getElementType());
  }
  return "";
}

/// Whether a node puts no elements at all into its first input.
bool scattersNothing(Lowering &l, onnx::NodeOp node) {
  StringRef type = node.getOpType();
  return (type == "ScatterND" || type == "ScatterElements" ||
          type == "Scatter") &&
         llvm::is_contained(l.getShape(node.getInput(1)), 0);
}

/// Lowers a node whose inputs are data, at least some.
LogicalResult GraphLowering::lowerData(onnx::NodeOp node) {
  Handler handler = findHandler(node.getOpType());
  if (!handler) {
    // What the import could not write out (lib/Import/SelectedRows.h).
    StringRef why = node.getString("refusal", "");
    return l.unsupported(node, "its inputs are data" +
                                   (why.empty() ? "" : "; " + why));
  }
  if (std::string input = strangeInput(node); !input.empty())
    return l.unsupported(node, "it reads the graph's input " + input +
                                   ", and a program takes f32, f16, bf16, i32, "
                                   "i64 and bool: export with one of these");
  if (scattersNothing(l, node)) {
    l.set(node->getResult(0), l.get(node.getInput(0)));
    return success();
  }
  bool numbers = isOfNumbers(l, node);
  if (std::string result = strangeResult(node); !result.empty() && !numbers)
    return l.unsupported(node, "it computes " + result +
                                   " from data, and a program computes f32, "
                                   "f16, bf16, i32, i64 and bool: let the "
                                   "module use one of these" +
                                   (result == "u8" || result == "i8"
                                        ? ", or give a quantized graph as it "
                                          "was before"
                                    : result == "f64" && isStrict()
                                        ? ", or compile without "
                                          "--strict-numerics, which keeps "
                                          "f64 from being computed in f32"
                                        : ""));
  if (!isCompilable(node))
    return l.unsupported(node, "of these types or sizes it can be computed "
                               "only where its inputs are known");
  Block &block = *builder.getInsertionBlock();
  Operation *before = block.empty() ? nullptr : &block.back();
  return failure(failed(callHandler(handler, l, node)) ||
                 failed(checkLowered(node, before)));
}

/// Operands that ONNX does not allow (a bias of another length, integers where
/// it takes floats) make ops that are not valid, or results that are not what
/// the graph goes on with. The node is at fault, and what the verifier says of
/// the first op tells why.
LogicalResult GraphLowering::checkLowered(onnx::NodeOp node,
                                          Operation *before) {
  std::string why;
  ScopedDiagnosticHandler listen(node.getContext(), [&](Diagnostic &said) {
    StringRef text = why.empty() ? StringRef(why = said.str()) : StringRef();
    if (auto [op, message] = text.split("' op "); !message.empty())
      why = message.str();
    return success();
  });
  Block &block = *builder.getInsertionBlock();
  for (Operation &op : llvm::make_range(
           before ? std::next(before->getIterator()) : block.begin(),
           block.end()))
    // The keys of what draws come with the last of them.
    if (!isa<nn::DropoutOp, nn::RandomUniformOp>(op) && failed(verify(&op)))
      return l.unsupported(node, "its operands do not fit: " + why);
  for (Value result : node->getResults()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (type && type.hasStaticShape() && l.isSet(result) &&
        l.getShape(result) != type.getShape())
      return l.unsupported(node, "its operands make another shape than its "
                                 "result has in the graph");
    if (type && !l.isSet(result) && !result.use_empty())
      return l.unsupported(node, "not all of its outputs are computed");
  }
  return success();
}

/// Sets results without elements, which are known whatever the node reads;
/// false if it has others.
bool GraphLowering::setNothing(onnx::NodeOp node) {
  auto isNothing = [](Type result) {
    auto type = dyn_cast<RankedTensorType>(result);
    return type && type.hasStaticShape() && type.getNumElements() == 0 &&
           type.getElementType().isIntOrFloat();
  };
  if (node->getNumResults() == 0 ||
      !llvm::all_of(node.getResultTypes(), isNothing))
    return false;
  for (Value result : node->getResults()) {
    auto type = cast<RankedTensorType>(result.getType());
    l.setConstant(result, HostTensor::splat(type.getShape(),
                                            type.getElementType(), Scalar{}));
  }
  return true;
}

LogicalResult GraphLowering::lowerKnown(onnx::NodeOp node) {
  if (setNothing(node))
    return success();
  try {
    return success(evaluate(node) || succeeded(lowerData(node)));
  } catch (const nn::Misfit &misfit) {
    return l.unsupported(node, "its operands do not fit: " + misfit.why);
  }
}

void GraphLowering::lowerNode(onnx::NodeOp node) {
  l.loc = node.getLoc();
  listener.place = nn::PlaceAttr();
  if (StringAttr scope = node.getScopeAttr())
    listener.place = nn::PlaceAttr::get(node.getContext(), scope, /*unit=*/{},
                                        nn::Phase::forward);
  bool known = !node.getDomain() && isRaisable(node.getOpType());
  // A node that depends on one that was refused says nothing new, unless its op
  // is unknown.
  bool isPoisoned = llvm::any_of(
      node.getInputs(), [&](Value input) { return l.hasFailed(input); });
  bool done = false;
  if (!known)
    (void)l.unsupported(node);
  else if (!isPoisoned)
    done = succeeded(lowerKnown(node));
  if (!done)
    for (Value result : node->getResults())
      l.setFailed(result);
}

/// Whether what the graph returns are tensors.
LogicalResult GraphLowering::checkOutputs() {
  ValueRange outputs =
      function.getBody().front().getTerminator()->getOperands();
  for (auto [i, output] : llvm::enumerate(outputs))
    if (!l.hasFailed(output) && !l.isTensor(output))
      return function.emitError() << "output #" << i << " is no tensor";
  return success();
}

/// Puts the lowered function in place of the graph and its initializers.
void GraphLowering::finish(std::unique_ptr<Block> entry) {
  if (draws.dropsNothing())
    module.emitWarning("--dropout=on: the graph has no Dropout with a ratio, "
                       "so nothing is dropped; call module.train() before the "
                       "export to have one");
  BlockArgument random = draws.finish();
  signature.replaceFunction(l, entry.release(), random);
  std::vector<std::string> unread;
  for (auto initializer :
       llvm::make_early_inc_range(module.getOps<onnx::InitializerOp>())) {
    if (initializer.getTrainable() && !initializers.isUsed(initializer))
      unread.push_back(initializer.getSymName().str());
    initializer.erase();
  }
  if (Attribute model = module->removeAttr("onnx.model"))
    module->setAttr(nn::kModelAttr, model);
  if (Attribute untrained = module->removeAttr(onnx::kUntrainedAttr))
    module->setAttr(nn::kUntrainedAttr, untrained);
  for (const std::string &name : unread)
    nn::noteUntrained(module, name, "nothing reads it", /*asked=*/false);
  for (StringRef attr :
       {StringRef("onnx.opset"), StringRef(kEvaluateAttr),
        StringRef(kDifferentiateAttr), StringRef(onnx::kReadMasksAttr),
        StringRef(onnx::kReadPositionsAttr)})
    module->removeAttr(attr);
}

LogicalResult GraphLowering::run() {
  auto entry = std::make_unique<Block>();
  if (failed(signature.bindArguments(l, *entry)))
    return failure();
  builder.setInsertionPointToEnd(entry.get());
  SymbolTable symbols(module);
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (auto get = dyn_cast<onnx::GetOp>(op)) {
      auto initializer = symbols.lookup<onnx::InitializerOp>(get.getName());
      if (!initializer)
        return get.emitOpError("names no initializer");
      l.setInitializer(get.getResult(), initializer);
    } else if (auto node = dyn_cast<onnx::NodeOp>(op)) {
      lowerNode(node);
    } else if (!isa<onnx::NoneOp>(op)) {
      return op.emitOpError("is not of the onnx dialect");
    }
  }
  if (initializers.isBroken() || failed(refusals.report(module)) ||
      failed(checkOutputs())) {
    entry->dropAllReferences();
    initializers.eraseParameters();
    return failure();
  }
  finish(std::move(entry));
  return success();
}

} // namespace

LogicalResult lowerGraph(ModuleOp module, const LoweringOptions &options) {
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  if (functions.size() != 1 || !functions.front().getBody().hasOneBlock())
    return module.emitError("needs exactly one function of one block");
  return GraphLowering(functions.front(), options).run();
}

} // namespace shardonnx
