// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers one node into a block of its own and interprets that.

#include "Interpret.h"

#include "Random.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "shardonnx/Dialect/NN/Interpreter/Interpreter.h"

using namespace mlir;

namespace shardonnx {

/// A node whose results have no elements needs no computing.
static HostOutputs emptyResults(onnx::NodeOp node) {
  HostOutputs outputs(std::in_place);
  for (Type result : node->getResultTypes()) {
    auto type = dyn_cast<RankedTensorType>(result);
    if (!type || !type.hasStaticShape() || type.getNumElements() != 0)
      return std::nullopt;
    outputs->push_back(
        HostTensor::dense(type.getShape(), type.getElementType(), {}));
  }
  return outputs;
}

HostOutputs interpretLowering(onnx::NodeOp node, HostInputs inputs) {
  if (HostOutputs empty = emptyResults(node))
    return empty;
  Handler handler = findHandler(node.getOpType());
  if (!handler)
    return std::nullopt;
  Block block;
  OpBuilder builder(node.getContext());
  builder.setInsertionPointToEnd(&block);
  Initializers initializers(node->getParentOfType<ModuleOp>());
  Refusals refusals;
  RandomDraws draws(DropoutMode::Graph);
  Lowering l(builder, initializers, refusals, draws);
  l.interpreting = true;
  l.loc = node.getLoc();
  nn::Interpreter interpreter;
  for (auto [input, tensor] : llvm::zip(node.getInputs(), inputs)) {
    if (!tensor)
      continue;
    Value argument = block.addArgument(tensor->getType(), l.loc);
    l.set(input, argument);
    l.setConstant(input, *tensor);
    (void)interpreter.set(argument, *tensor);
  }
  size_t known = block.getNumArguments();
  if (failed(callHandler(handler, l, node)) || block.getNumArguments() > known)
    return std::nullopt;
  SmallVector<Value> results;
  for (Value result : node->getResults())
    if (l.isSet(result))
      results.push_back(l.get(result));
    else
      return std::nullopt;
  func::ReturnOp::create(builder, l.loc, results);
  // What the interpreter runs must be valid; nothing else has checked it.
  ScopedDiagnosticHandler quiet(node.getContext(),
                                [](Diagnostic &) { return success(); });
  for (Operation &op : block.without_terminator())
    if (failed(verify(&op)))
      return std::nullopt;
  if (failed(interpreter.runBlock(block)))
    return std::nullopt;
  HostOutputs outputs(std::in_place);
  for (Value result : results)
    outputs->push_back(interpreter.get(result));
  return outputs;
}

} // namespace shardonnx
