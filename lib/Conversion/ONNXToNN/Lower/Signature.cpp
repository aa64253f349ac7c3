// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arguments and results of the `nn` function, and their names.

#include "Signature.h"

#include "shardonnx/Dialect/NN/IR/Ids.h"
#include "shardonnx/Dialect/NN/IR/Inputs.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace shardonnx {

bool Signature::bindKnownInput(Lowering &l, Value argument, StringRef name) {
  auto type = cast<RankedTensorType>(argument.getType());
  if (!options.assumeFullMask || type.getRank() != 2)
    return false;
  Type element = type.getElementType();
  if (isPaddingMask(name)) {
    if (module->hasAttr(onnx::kReadMasksAttr))
      return false;
    l.setConstant(argument, HostTensor::splat(type.getShape(), element,
                                              scalarOf(1, element)));
    return true;
  }
  if (!isNamed(name, InputKind::PositionIds) || options.positionsVary ||
      module->hasAttr(onnx::kReadPositionsAttr) || !isa<IntegerType>(element))
    return false;
  int64_t length = type.getShape()[1];
  auto positions = llvm::to_vector(llvm::seq<int64_t>(0, length));
  l.setConstant(argument, HostTensor::ints({1, length}, positions, element)
                              .broadcast(type.getShape()));
  return true;
}

LogicalResult Signature::bindArguments(Lowering &l, Block &entry) {
  for (auto [index, argument] : llvm::enumerate(function.getArguments())) {
    auto name = function.getArgAttrOfType<StringAttr>(index, "onnx.name");
    if (auto known = function.getArgAttrOfType<DenseElementsAttr>(
            index, kInputValueAttr)) {
      l.setConstant(argument, HostTensor::fromAttr(known));
      continue;
    }
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || !type.hasStaticShape())
      return function.emitError() << "input " << (name ? name.getValue() : "")
                                  << " has no static shape";
    Value value = entry.addArgument(type, argument.getLoc());
    bound.push_back(index);
    if (evaluating || !name || !bindKnownInput(l, argument, name.getValue()))
      l.set(argument, value);
  }
  return success();
}

/// What the function returns as `output`. Of an output whose value is told as
/// `known` that is a placeholder, for its type may be none that is computed
/// with later.
Value Signature::returned(Lowering &l, Value output, Attribute &known) {
  const HostTensor *value = evaluating ? l.getConstant(output) : nullptr;
  if (!value || !(value->isSplat() || countOf(value->getShape())))
    return l.get(output);
  known = value->toAttr();
  return l.constant(0);
}

/// Masks and positions that the program reads are fed from the data.
static void nameReadInputs(func::FuncOp function, bool masks, bool positions) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (cast<ShapedType>(function.getArgumentTypes()[i]).getRank() != 2)
      continue;
    StringRef name = nn::inputName(function, i);
    if (masks && isPaddingMask(name))
      nn::setInputKind(function, i, InputKind::ReadMask);
    if (positions && isNamed(name, InputKind::PositionIds))
      nn::setInputKind(function, i, InputKind::ReadPositions);
  }
}

/// Of arguments that hold labels, by their number: nn.ids.
using ClassLabels = llvm::MapVector<unsigned, SmallVector<Attribute>>;

/// What the data may have as labels of the graph's own losses: a loss that is
/// written out, with weights or smoothing, does not tell any more.
static ClassLabels labelsOfLosses(Lowering &l, func::FuncOp function) {
  ClassLabels labels;
  function.walk([&](onnx::NodeOp node) {
    if (node.getOpType() != "SoftmaxCrossEntropyLoss" &&
        node.getOpType() != "NegativeLogLikelihoodLoss")
      return;
    ArrayRef<int64_t> scores = l.getShape(node.getInput(0));
    Value classes = node.getInput(1);
    if (scores.size() < 2 || scores[1] < 1 || l.hasFailed(classes) ||
        l.getConstant(classes))
      return;
    std::optional<nn::IdSource> source = nn::sourceOfIds(l.get(classes));
    if (!source || isFloat(source->argument))
      return;
    source->use.limit = scores[1];
    source->use.ignored = node.getInt("ignore_index", kIgnoredLabel);
    Attribute use = nn::toAttribute(node.getContext(), source->use);
    SmallVector<Attribute> &uses = labels[source->argument.getArgNumber()];
    if (!llvm::is_contained(uses, use))
      uses.push_back(use);
  });
  return labels;
}

void Signature::replaceFunction(Lowering &l, Block *entry,
                                BlockArgument random) {
  ValueRange outputs =
      function.getBody().front().getTerminator()->getOperands();
  SmallVector<Attribute> known(outputs.size());
  ClassLabels labels = labelsOfLosses(l, function);
  SmallVector<Value> results;
  for (auto [output, value] : llvm::zip(outputs, known))
    results.push_back(returned(l, output, value));
  func::ReturnOp::create(l.builder, function.getLoc(), results);
  auto type = l.builder.getFunctionType(entry->getArgumentTypes(),
                                        ValueRange(results).getTypes());
  auto raised =
      func::FuncOp::create(function.getLoc(), function.getName(), type);
  for (auto [to, from] : llvm::enumerate(bound))
    if (Attribute name = function.getArgAttr(from, "onnx.name"))
      raised.setArgAttr(to, nn::kNameAttr, name);
  for (unsigned i = 0; i < type.getNumResults(); ++i) {
    if (Attribute name = function.getResultAttr(i, "onnx.name"))
      raised.setResultAttr(i, nn::kNameAttr, name);
    if (known[i])
      raised.setResultAttr(i, nn::kValueAttr, known[i]);
  }
  for (auto &[argument, uses] : labels)
    raised.setArgAttr(argument, nn::kIdsAttr, l.builder.getArrayAttr(uses));
  nameReadInputs(raised, module->hasAttr(onnx::kReadMasksAttr),
                 module->hasAttr(onnx::kReadPositionsAttr));
  if (random)
    raised.setArgAttrs(
        random.getArgNumber(),
        nn::inputAttributes(raised.getContext(), InputKind::Random));
  raised.getBody().push_back(entry);
  function.erase();
  module.push_back(raised);
}

} // namespace shardonnx
