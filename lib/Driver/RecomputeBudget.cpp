// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cheapest recomputation that fits. Levels begin with a plan that keeps
// what forward has written anyway, then lie between `none` and `block`:
// each computes more again, and keeps less, than the one before. The first
// level that fits if all units are at it is found, then how few units must be
// at it while the others stay one level below. The first units go first: what
// they keep lives longest.

#include "Trial.h"
#include "shardonnx/Dialect/Exec/IR/Exec.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Driver/Pipeline.h"
#include "shardonnx/Support/ElementType.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

#include <set>

using namespace mlir;

namespace shardonnx {

OwningOpRef<ModuleOp> planCopy(ModuleOp module, Level first,
                               const CompileOptions &options) {
  ScopedDiagnosticHandler silent(module.getContext(),
                                 [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> copy(module.clone());
  PassManager pm(module.getContext());
  pm.enableVerifier(false); // takes as long as the passes: once, at the end
  for (int level = int(first); level <= int(Level::Memory); ++level)
    addPassesTo(Level(level), pm, options);
  if (failed(pm.run(*copy)) || failed(verify(*copy)))
    return nullptr;
  return copy;
}

namespace {

int64_t privateBytes(ModuleOp module) {
  for (auto plan : module.getOps<exec::SpacePlanOp>())
    if (plan.getSpace() == exec::Space::private_)
      return plan.getBytes();
  return 0;
}

class RecomputeFitter {
public:
  RecomputeFitter(ModuleOp module, const CompileOptions &options,
                  int64_t budget)
      : module(module), options(options), budget(budget) {}

  BudgetOutcome run();

private:
  void collect();
  bool fits(size_t level, size_t unitsAt);
  void setPlan(size_t level, size_t unitsAt);

  ModuleOp module;
  const CompileOptions &options;
  int64_t budget;
  llvm::SetVector<StringAttr> units; // other than root, in order
  SmallVector<Attribute> levels;     // values of the plan; null: not named
  int64_t least = INT64_MAX;         // that any trial took
  bool broken = false;               // a pass has failed
};

} // namespace

// FLOPs that a byte of each library call's result costs: prices just above
// these have it computed again. Chains of calls cost more for each byte that
// can be dropped, so the list goes on beyond the largest.
void RecomputeFitter::collect() {
  std::set<int64_t> prices;
  module.walk([&](Operation *op) {
    FlatSymbolRefAttr unit = nn::unitOf(op);
    if (!unit || unit.getValue() == fsdp::kRootUnit || isa<nn::ParameterOp>(op))
      return;
    units.insert(unit.getAttr());
    auto counted = dyn_cast<nn::FlopsOpInterface>(op);
    auto type = counted ? dyn_cast<ShapedType>(op->getResult(0).getType())
                        : ShapedType();
    if (type && type.hasStaticShape() && type.getNumElements() != 0)
      prices.insert(1 + counted.getFlops() / type.getNumElements() /
                            elementBytes(type.getElementType()));
  });
  MLIRContext *context = module.getContext();
  levels = {UnitAttr::get(context), nullptr,
            StringAttr::get(context, spell(RecomputeKind::Selective))};
  int64_t largest = prices.empty() ? 0 : *prices.rbegin();
  for (int64_t factor : {2, 4})
    prices.insert(factor * largest);
  for (int64_t price : prices)
    levels.push_back(IntegerAttr::get(IntegerType::get(context, 64), price));
  levels.push_back(StringAttr::get(context, spell(RecomputeKind::Block)));
}

// The first `unitsAt` units are at `level`, the others one below.
void RecomputeFitter::setPlan(size_t level, size_t unitsAt) {
  SmallVector<NamedAttribute> plan;
  for (auto [index, unit] : llvm::enumerate(units))
    if (Attribute mode = levels[index < unitsAt ? level : level - 1])
      plan.push_back({unit, mode});
  module->setAttr(fsdp::kRecomputePlanAttr,
                  DictionaryAttr::get(module.getContext(), plan));
}

bool RecomputeFitter::fits(size_t level, size_t unitsAt) {
  setPlan(level, unitsAt);
  OwningOpRef<ModuleOp> planned = planCopy(module, Level::Grad, options);
  if (!planned) {
    broken = true;
    return true; // the search ends, and the passes on the module say why
  }
  int64_t bytes = privateBytes(*planned);
  least = std::min(least, bytes);
  return bytes <= budget;
}

BudgetOutcome RecomputeFitter::run() {
  collect();
  size_t level = 0;
  while (level != levels.size() && !fits(level, units.size()))
    ++level;
  if (broken || level == 0 || level == levels.size())
    return {level != levels.size(), least, broken};
  size_t tooFew = 0, enough = units.size();
  while (tooFew + 1 < enough) {
    size_t middle = (tooFew + enough) / 2;
    (fits(level, middle) ? enough : tooFew) = middle;
  }
  setPlan(level, enough);
  return {true, least, broken};
}

BudgetOutcome fitRecompute(ModuleOp module, const CompileOptions &options) {
  return RecomputeFitter(module, options, options.recompute.number).run();
}

} // namespace shardonnx
