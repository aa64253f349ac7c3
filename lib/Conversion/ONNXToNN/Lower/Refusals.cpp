// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The error about nodes that cannot be lowered.

#include "Refusals.h"

#include "shardonnx/Support/Origin.h"

using namespace mlir;

namespace shardonnx {

Refusal Refusals::add(onnx::NodeOp node, const Twine &why) {
  refused.add(node.getDomain().value_or(""), node.getOpType(),
              getOrigin(node.getLoc()).node, why.str());
  return {};
}

Refusal Refusals::addWrong(onnx::NodeOp node, const Twine &why) {
  wrong.emplace_back(node, why.str());
  return {};
}

LogicalResult Refusals::report(ModuleOp module) const {
  for (auto [node, why] : wrong)
    node.emitError(why);
  if (refused.empty())
    return success(wrong.empty());
  return module.emitError()
         << "these ONNX ops are not supported: " << refused.list();
}

} // namespace shardonnx
