// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "shardonnx/Dialect/NN/IR/RaiseReport.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Support/Origin.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

void RaiseNotes::add(Operation *op, StringRef what, StringRef why) {
  StringRef node = getOrigin(op->getLoc()).node;
  nodes[{what, why}].push_back(StringAttr::get(op->getContext(), node));
}

void RaiseNotes::addTo(ModuleOp module) const {
  if (nodes.empty())
    return;
  Builder b(module.getContext());
  SmallVector<Attribute> entries;
  if (auto known = module->getAttrOfType<ArrayAttr>(kRaisedAttr))
    llvm::append_range(entries, known);
  for (const auto &[key, names] : nodes) {
    NamedAttrList entry;
    entry.set("what", b.getStringAttr(key.first));
    entry.set("nodes", b.getArrayAttr(names));
    if (!key.second.empty())
      entry.set("why", b.getStringAttr(key.second));
    entries.push_back(entry.getDictionary(module.getContext()));
  }
  module->setAttr(kRaisedAttr, b.getArrayAttr(entries));
}
