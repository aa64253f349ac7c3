// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The error about nodes that cannot be lowered.

#include "Refusals.h"

#include "shardonnx/Support/Origin.h"

using namespace mlir;

namespace shardonnx {

Refusal Refusals::add(onnx::NodeOp node, const Twine &why) {
  Refused &entry = refused[node.getOpType()];
  if (entry.count++ == 0)
    entry.why = why.str();
  if (entry.nodes.size() < 3)
    entry.nodes.push_back(getOrigin(node.getLoc()).node.str());
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
  std::string list;
  for (const auto &[op, entry] : refused) {
    list += list.empty() ? "" : "; ";
    list += op.str() + " ×" + std::to_string(entry.count) + " (";
    for (auto [i, node] : llvm::enumerate(entry.nodes))
      list += (i ? ", '" : "'") + node + "'";
    list += entry.count > entry.nodes.size() ? ", …)" : ")";
    list += entry.why.empty() ? "" : ": " + entry.why;
  }
  return module.emitError() << "these ONNX ops are not supported: " << list;
}

} // namespace shardonnx
