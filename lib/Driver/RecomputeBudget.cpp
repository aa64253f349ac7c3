// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The recomputation of the least predicted time that fits. Levels begin with a
// plan that keeps what forward has written anyway, then lie between `none` and
// `block`: each computes more again, and keeps less, than the one before. The
// first level that fits if all units are at it is found. Then units of two
// levels are mixed, with as few as may be at the deeper one: those beside the
// level that was found, and of what keeps much with `block`, whose blocks leave
// the bytes to others. Which units are the deep ones decides how long the
// others' values live, and how many of their copies to the host are under way
// at a time.

#include "Trial.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"
#include "shardonnx/Driver/Pipeline.h"
#include "shardonnx/Support/ElementType.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/ErrorHandling.h"

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

/// The first level with which products and attention are all kept, and nothing
/// else.
constexpr size_t kSelective = 2;

/// Which units of a mixture are at the deeper of its levels.
enum class Deep {
  First,  // what these keep would live longest
  Spread, // the others' copies to the host do not pile up
};

/// Bytes, as RecomputeTrial has them.
struct Budget {
  int64_t activations, rank;
};

/// So many units at one level, the others at another.
struct Mixture {
  size_t shallow = 0, deep = 0;
  Deep order = Deep::First;
};

class RecomputeFitter {
public:
  RecomputeFitter(ModuleOp module, const CompileOptions &options,
                  const Budget &budget, ManifestOf manifestOf,
                  RecomputeTrials &trials)
      : module(module), options(options), budget(budget),
        manifestOf(manifestOf), trials(trials) {}

  RecomputeOutcome run();

private:
  void collect();
  std::optional<size_t> firstLevelThatFits();
  SmallVector<Mixture> mixturesBelow(size_t level) const;
  void search(const Mixture &mixture);
  bool fits(const Mixture &mixture, size_t unitsDeep);
  bool fitsWhole(size_t level) {
    return fits({level, level, Deep::First}, units.size());
  }
  DictionaryAttr planOf(const Mixture &mixture, size_t unitsDeep);
  RecomputeTrial measure(DictionaryAttr plan);

  ModuleOp module;
  const CompileOptions &options;
  Budget budget;
  ManifestOf manifestOf;
  RecomputeTrials &trials;
  llvm::SetVector<StringAttr> units; // other than root, in order
  SmallVector<Attribute> levels;     // values of the plan; null: not named
  RecomputeOutcome outcome;
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

static bool isDeep(Deep order, size_t unit, size_t deep, size_t units) {
  switch (order) {
  case Deep::First:
    return unit < deep;
  case Deep::Spread:
    return (unit + 1) * deep / units != unit * deep / units;
  }
  llvm_unreachable("an order of units");
}

DictionaryAttr RecomputeFitter::planOf(const Mixture &mixture,
                                       size_t unitsDeep) {
  SmallVector<NamedAttribute> plan;
  for (auto [index, unit] : llvm::enumerate(units)) {
    bool deep = isDeep(mixture.order, index, unitsDeep, units.size());
    if (Attribute mode = levels[deep ? mixture.deep : mixture.shallow])
      plan.push_back({unit, mode});
  }
  return DictionaryAttr::get(module.getContext(), plan);
}

RecomputeTrial RecomputeFitter::measure(DictionaryAttr plan) {
  auto [trial, isNew] = trials.try_emplace(
      {options.strategy, options.offloadActivations,
       module->hasAttr(fsdp::kGatherBudgetAttr), plan.getAsOpaquePointer()});
  if (!isNew)
    return trial->second;
  module->setAttr(fsdp::kRecomputePlanAttr, plan);
  std::optional<PlannedStep> step =
      planStep(module, options, manifestOf, Level::Grad);
  module->removeAttr(fsdp::kRecomputePlanAttr);
  if (!step) {
    outcome.broken = true;
    trials.erase(trial);
    return {};
  }
  return trial->second = {step->manifest.privateSpace.bytes, step->bytes,
                          step->time.seconds()};
}

// Remembers what fits and is faster than all before. Where a pass has failed
// the search ends, and the passes on the module say why.
bool RecomputeFitter::fits(const Mixture &mixture, size_t unitsDeep) {
  if (outcome.broken)
    return true;
  DictionaryAttr plan = planOf(mixture, unitsDeep);
  RecomputeTrial trial = measure(plan);
  if (outcome.least == 0 || trial.activations < outcome.least)
    outcome.least = trial.activations;
  if (trial.activations > budget.activations || trial.rank > budget.rank)
    return false;
  if (!outcome.plan || trial.seconds < outcome.seconds) {
    outcome.plan = plan;
    outcome.seconds = trial.seconds;
  }
  return true;
}

// Deeper levels take less, so it is looked for by halves; where not even the
// last fits, one by one.
std::optional<size_t> RecomputeFitter::firstLevelThatFits() {
  if (fitsWhole(0))
    return 0;
  size_t tooMuch = 0, fitting = levels.size() - 1;
  while (!fitsWhole(fitting))
    if (--fitting == 0)
      return std::nullopt;
  while (tooMuch + 1 < fitting) {
    size_t middle = (tooMuch + fitting) / 2;
    (fitsWhole(middle) ? fitting : tooMuch) = middle;
  }
  return fitting;
}

SmallVector<Mixture> RecomputeFitter::mixturesBelow(size_t level) const {
  SmallVector<Mixture> mixtures = {{level - 1, level, Deep::First}};
  size_t block = levels.size() - 1;
  if (level > kSelective && block > kSelective + 1)
    mixtures.push_back(
        {kSelective, block,
         options.offloadActivations ? Deep::Spread : Deep::First});
  return mixtures;
}

void RecomputeFitter::search(const Mixture &mixture) {
  size_t tooFew = 0, enough = units.size();
  if (!fits(mixture, enough))
    return;
  while (tooFew + 1 < enough) {
    size_t middle = (tooFew + enough) / 2;
    (fits(mixture, middle) ? enough : tooFew) = middle;
  }
}

RecomputeOutcome RecomputeFitter::run() {
  collect();
  std::optional<size_t> level = firstLevelThatFits();
  outcome.fits = level.has_value();
  outcome.keepsAll = level == 0;
  if (level && !outcome.keepsAll)
    for (const Mixture &mixture : mixturesBelow(*level))
      search(mixture);
  return outcome;
}

RecomputeOutcome fitRecompute(ModuleOp module, const CompileOptions &options,
                              ManifestOf manifestOf, RecomputeTrials &trials) {
  auto within = [&](int64_t activations, int64_t rank) {
    return RecomputeFitter(module, options, {activations, rank}, manifestOf,
                           trials)
        .run();
  };
  int64_t asked = options.recompute.number;
  int64_t rank = options.memoryBudget.value_or(INT64_MAX);
  RecomputeOutcome outcome = within(asked, rank);
  if (!options.memoryBudget || outcome.fits || outcome.broken)
    return outcome;
  gatherLate(module);
  outcome = within(asked, rank);
  if (!outcome.fits && !outcome.broken && outcome.least <= asked)
    outcome = within(outcome.least, INT64_MAX);
  module->removeAttr(fsdp::kGatherBudgetAttr);
  return outcome;
}

} // namespace shardonnx
