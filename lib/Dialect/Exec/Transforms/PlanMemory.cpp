// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// exec-plan-memory: offsets for the spaces. Functions of a step run one
// after the other and share nothing private, so each has the private space to
// itself; units keep their places over the whole step.

#include "shardonnx/Dialect/Exec/Transforms/Lifetimes.h"
#include "shardonnx/Dialect/Exec/Transforms/Passes.h"

#include "mlir/IR/Builders.h"
#include "shardonnx/Dialect/Exec/IR/Exec.h"

namespace shardonnx::exec {
#define GEN_PASS_DEF_PLANMEMORYPASS
#include "shardonnx/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace shardonnx::exec

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

namespace {

class PlanMemory : public exec::impl::PlanMemoryPassBase<PlanMemory> {
public:
  void runOnOperation() override;

private:
  void addSpace(Space space, PlanSummary summary);
  PlanSummary planBuffers(Space space);
  PlanSummary planUnits(Lifetimes lifetimes, StringRef attribute);
  void placeGradientsAmongActivations(int64_t privateBytes);
  void placeSlicesAmongActivations(int64_t privateBytes);
};

} // namespace

void PlanMemory::addSpace(Space space, PlanSummary summary) {
  OpBuilder builder(&getContext());
  auto units = getOperation().getOps<fsdp::UnitOp>();
  if (units.empty())
    builder.setInsertionPointToStart(getOperation().getBody());
  else
    builder.setInsertionPoint(*units.begin());
  SpacePlanOp::create(builder, getOperation().getLoc(), space, summary.bytes,
                      summary.lowerBound);
}

PlanSummary PlanMemory::planBuffers(Space space) {
  PlanSummary largest;
  for (func::FuncOp function : stepFunctions(getOperation())) {
    Lifetimes lifetimes = bufferLifetimes(function, space);
    PlanSummary summary = planOffsets(lifetimes.items);
    for (auto [owner, item] : llvm::zip(lifetimes.owners, lifetimes.items)) {
      OpBuilder builder(owner);
      auto buffer = BufferOp::create(builder, owner->getLoc(),
                                     owner->getResult(0).getType(), space,
                                     FlatSymbolRefAttr(), item.offset);
      owner->getResult(0).replaceAllUsesWith(buffer);
      owner->erase();
    }
    largest.bytes = std::max(largest.bytes, summary.bytes);
    largest.lowerBound = std::max(largest.lowerBound, summary.lowerBound);
  }
  return largest;
}

PlanSummary PlanMemory::planUnits(Lifetimes lifetimes, StringRef attribute) {
  PlanSummary summary = planOffsets(lifetimes.items);
  auto type = IntegerType::get(&getContext(), 64);
  for (auto [unit, item] : llvm::zip(lifetimes.owners, lifetimes.items))
    unit->setAttr(attribute, IntegerAttr::get(type, item.offset));
  return summary;
}

/// Gradients of one rank and one microbatch need no memory that others read:
/// there is room for them where backward has done with activations. The buffers
/// have the same offsets in steps of other kinds. They keep these, unless all
/// takes less where the longest-lived lie lowest: what backward frees is then
/// in one piece.
void PlanMemory::placeGradientsAmongActivations(int64_t privateBytes) {
  StepLifetimes step =
      privateLifetimesOfStep(getOperation(), PlacedGradients::Whole);
  PlanSummary summary = planOffsets(step.items, step.buffers);
  auto other = step.items;
  auto buffers = MutableArrayRef(other).take_front(step.buffers);
  if (summary.bytes > summary.lowerBound &&
      planOffsets(buffers, /*placed=*/0, PlanOrder::Lifetime).bytes <=
          privateBytes &&
      planOffsets(other, step.buffers).bytes < summary.bytes)
    step.items = std::move(other);
  auto type = IntegerType::get(&getContext(), 64);
  for (auto [index, owner, item] : llvm::enumerate(step.owners, step.items)) {
    auto offset = IntegerAttr::get(type, item.offset);
    if (index < step.buffers)
      cast<BufferOp>(owner).setOffsetAttr(offset);
    else
      owner->setAttr(kGradPlaceAttr, offset);
  }
}

/// The same of several ranks and the slices that they own, of which more ranks
/// have shorter ones at the same places. The buffers stay, and the space has no
/// more bytes for them: a slice that finds no room gets no place.
void PlanMemory::placeSlicesAmongActivations(int64_t privateBytes) {
  StepLifetimes step =
      privateLifetimesOfStep(getOperation(), PlacedGradients::Slice);
  planOffsets(step.items, step.buffers);
  auto type = IntegerType::get(&getContext(), 64);
  for (auto [index, owner, item] : llvm::enumerate(step.owners, step.items))
    if (index >= step.buffers && item.offset + item.bytes <= privateBytes)
      owner->setAttr(kSlicePlaceAttr, IntegerAttr::get(type, item.offset));
}

void PlanMemory::runOnOperation() {
  ModuleOp module = getOperation();
  for (SpacePlanOp old :
       llvm::make_early_inc_range(module.getOps<SpacePlanOp>()))
    old.erase();
  PlanSummary buffers = planBuffers(Space::private_);
  addSpace(Space::private_, buffers);
  addSpace(Space::params, planUnits(paramLifetimes(module), kParamOffsetAttr));
  addSpace(Space::gradients,
           planUnits(gradientLifetimes(module), kGradOffsetAttr));
  if (PlanSummary host = planBuffers(Space::host); host.bytes > 0)
    addSpace(Space::host, host);
  if (isCuda(module))
    return;
  placeGradientsAmongActivations(buffers.bytes);
  placeSlicesAmongActivations(buffers.bytes);
}
