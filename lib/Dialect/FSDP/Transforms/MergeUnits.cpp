// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes one unit of small neighbours, whose collectives would take longer to
// begin than to run.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"
#include "shardonnx/Dialect/NN/IR/UnitPolicy.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_MERGEUNITSPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

struct Candidate {
  SmallVector<StringAttr> names;
  int64_t bytes = 0;
  Type dtype; // in which its parameters are read; null: in several
};

// The units of the step in the order of their first parameter, root left out.
SmallVector<Candidate> collect(func::FuncOp step) {
  llvm::MapVector<StringAttr, Candidate> units;
  llvm::DenseSet<Attribute> seen;
  for (auto get : step.getBody().front().getOps<nn::GetOp>()) {
    FlatSymbolRefAttr unit = nn::unitOf(get);
    if (!unit || unit.getValue() == kRootUnit ||
        !seen.insert(get.getParameterAttr()).second)
      continue;
    auto type = cast<ShapedType>(get.getType());
    Candidate &candidate = units[unit.getAttr()];
    if (candidate.names.empty()) {
      candidate.names = {unit.getAttr()};
      candidate.dtype = type.getElementType();
    } else if (candidate.dtype != type.getElementType()) {
      candidate.dtype = nullptr;
    }
    candidate.bytes +=
        type.getNumElements() * (type.getElementTypeBitWidth() / 8);
  }
  // What the user has set for a unit is not for its neighbours.
  auto policies =
      step->getParentOfType<ModuleOp>()->getAttrOfType<DictionaryAttr>(
          nn::kUnitPoliciesAttr);
  SmallVector<Candidate> list;
  for (auto &[name, candidate] : units) {
    if (policies && policies.contains(name))
      candidate.dtype = nullptr;
    list.push_back(std::move(candidate));
  }
  return list;
}

SmallVector<Candidate> merge(ArrayRef<Candidate> units, int64_t below) {
  SmallVector<Candidate> merged;
  for (const Candidate &unit : units) {
    bool joins = !merged.empty() && unit.dtype &&
                 merged.back().dtype == unit.dtype &&
                 std::min(merged.back().bytes, unit.bytes) < below;
    if (!joins) {
      merged.push_back(unit);
      continue;
    }
    merged.back().names.append(unit.names);
    merged.back().bytes += unit.bytes;
  }
  return merged;
}

struct MergeUnitsPass : public fsdp::impl::MergeUnitsPassBase<MergeUnitsPass> {
  void runOnOperation() override;
};

void MergeUnitsPass::runOnOperation() {
  ModuleOp module = getOperation();
  auto below = module->getAttrOfType<IntegerAttr>(kMergeBelowAttr);
  auto step = module.lookupSymbol<func::FuncOp>(kMicrobatch);
  if (!below || !step)
    return;
  llvm::DenseMap<StringAttr, FlatSymbolRefAttr> renamed;
  for (const Candidate &unit : merge(collect(step), below.getInt())) {
    if (unit.names.size() == 1)
      continue;
    std::string name = unit.names.front().str();
    for (StringAttr part : ArrayRef(unit.names).drop_front())
      name += "+" + part.str();
    for (StringAttr part : unit.names)
      renamed[part] = FlatSymbolRefAttr::get(&getContext(), name);
  }
  module.walk([&](Operation *op) {
    if (FlatSymbolRefAttr unit = nn::unitOf(op))
      if (FlatSymbolRefAttr name = renamed.lookup(unit.getAttr()))
        nn::setUnit(op, name);
  });
}

} // namespace
