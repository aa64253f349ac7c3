// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Of a plan: meshes whose tensor and context axes make another program, each of
// which is imported anew; and what would fit where nothing does. A larger axis
// leaves a rank less to hold and has it wait for more, so one is made larger as
// long as something may be gained by it.

#include "PlanSearch.h"
#include "Trial.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace shardonnx {
namespace {

/// So many programs are tried at most, and so many ranks compute together.
constexpr int kMostMeshes = 8;
constexpr int64_t kMostTogether = 64;

/// What others could gain at most, below which nobody looks for them.
constexpr double kWorthwhile = 1.03;

bool isBetter(const PlannedWay &a, const PlannedWay &b) {
  if (a.fits != b.fits)
    return a.fits;
  return a.fits ? isFaster(a, b) : a.memoryBytes < b.memoryBytes;
}

// A smaller part of the model would only wait more.
bool needsNothing(const PlannedWay &way) {
  return way.fits && way.recompute.kind == RecomputeKind::None &&
         way.offload == Offload::None;
}

class MeshSearch {
public:
  MeshSearch(const PlanOptions &options, const PlanSearch &first, Plan &plan)
      : options(options), first(first), plan(plan) {}

  /// From `sharded` on, one axis alone and then both; `best` of what there is
  /// already.
  void run(const PlannedWay &sharded, const PlannedWay &best);
  /// Makes one axis of the plan's mesh larger until `strategy` fits.
  std::optional<PlannedWay> firstThatFits(Strategy strategy, MeshAxis axis);

private:
  /// What a mesh comes to: the tokens a second and GPU that it would reach if
  /// all fitted.
  struct Found {
    PlannedWay way;
    double reached = 0;
  };
  std::optional<Found> wayOn(const Mesh &mesh, Strategy strategy);
  std::optional<Found> larger(const PlannedWay &than, MeshAxis axis);
  void climb(const PlannedWay &from, MeshAxis axis);
  void addStrategies(const Mesh &mesh);
  double tokensToBeat() const {
    return best.fits ? best.tokensPerSecondPerGpu : 0;
  }

  const PlanOptions &options;
  const PlanSearch &first;
  Plan &plan;
  PlannedWay best;
  int tried = 0;
};

} // namespace

// A mesh that the model does not allow has nothing to say.
std::optional<MeshSearch::Found> MeshSearch::wayOn(const Mesh &mesh,
                                                   Strategy strategy) {
  llvm::raw_null_ostream nowhere;
  Diagnostics silent("shardonnx", nowhere);
  PlanSearch search(options, plan, silent);
  if (failed(search.start(mesh, 0, &first)) ||
      !llvm::is_contained(search.strategies(), strategy))
    return std::nullopt;
  std::optional<PlannedWay> way =
      search.bestOf(strategy, plan.gpus, options.accumulate, tokensToBeat());
  if (!way)
    return std::nullopt;
  return Found{std::move(*way), search.reached()};
}

// The next size that the ranks allow, and then the model: a tensor axis stays
// on a machine.
std::optional<MeshSearch::Found> MeshSearch::larger(const PlannedWay &than,
                                                    MeshAxis axis) {
  Mesh mesh = meshOf(than);
  int64_t size = mesh.size(axis), others = mesh.together() / size;
  int64_t most = std::min(plan.gpus, kMostTogether);
  if (axis == MeshAxis::Tensor)
    most = std::min(most, plan.gpusPerNode * others);
  for (int64_t next = 2 * size; next * others <= most; next += size) {
    bool fitsMachine =
        axis == MeshAxis::Context || plan.gpusPerNode % next == 0;
    if (plan.gpus % (next * others) != 0 || !fitsMachine)
      continue;
    if (++tried > kMostMeshes)
      return std::nullopt;
    mesh.set(axis, next);
    if (std::optional<Found> found = wayOn(mesh, than.strategy))
      return found;
  }
  return std::nullopt;
}

// The other strategies beside the one that the search was made with, of which
// an axis leaves a rank no less than its part of what it holds without.
void MeshSearch::addStrategies(const Mesh &mesh) {
  auto mayFit = [&](Strategy strategy) {
    return strategy != Strategy::FullShard &&
           llvm::any_of(plan.ways, [&](const PlannedWay &way) {
             return way.strategy == strategy &&
                    double(way.memoryBytes) / double(mesh.together()) <=
                        plan.memoryBytes;
           });
  };
  llvm::raw_null_ostream nowhere;
  Diagnostics silent("shardonnx", nowhere);
  PlanSearch search(options, plan, silent);
  if (failed(search.start(mesh, 0, &first)))
    return;
  for (Strategy strategy : search.strategies())
    if (mayFit(strategy))
      if (std::optional<PlannedWay> way = search.bestOf(
              strategy, plan.gpus, options.accumulate, tokensToBeat());
          way && (way->fits || !best.fits))
        plan.ways.push_back(std::move(*way));
}

// A larger axis may be slower, and the next one fit with less recomputation:
// until nothing is computed again, or it could not be faster if all fitted.
void MeshSearch::climb(const PlannedWay &from, MeshAxis axis) {
  PlannedWay last = from;
  while (std::optional<Found> found = larger(last, axis)) {
    last = found->way;
    bool mayBeFaster = found->reached > tokensToBeat();
    if (last.fits || !best.fits)
      plan.ways.push_back(last);
    if (isBetter(last, best))
      best = last;
    if (needsNothing(last) || !mayBeFaster)
      return;
  }
}

void MeshSearch::run(const PlannedWay &sharded, const PlannedWay &start) {
  best = start;
  climb(sharded, MeshAxis::Tensor);
  climb(sharded, MeshAxis::Context);
  if (best.ranks.together() == 1)
    return;
  if (!needsNothing(best))
    climb(PlannedWay(best),
          best.ranks.tensor == 1 ? MeshAxis::Tensor : MeshAxis::Context);
  addStrategies(meshOf(best));
}

std::optional<PlannedWay> MeshSearch::firstThatFits(Strategy strategy,
                                                    MeshAxis axis) {
  PlannedWay way;
  way.strategy = strategy;
  way.ranks.tensor = static_cast<int>(options.compile.mesh.tensor());
  way.ranks.context = static_cast<int>(options.compile.mesh.context());
  while (std::optional<Found> found = larger(way, axis)) {
    if (found->way.fits)
      return found->way;
    way = std::move(found->way);
  }
  return std::nullopt;
}

void addMeshes(const PlanOptions &options, const PlanSearch &first,
               Plan &plan) {
  const PlannedWay &best = *llvm::min_element(plan.ways, isBetter);
  bool gains = !best.fits || first.reachedWithoutWaits() >
                                 kWorthwhile * best.tokensPerSecondPerGpu;
  auto sharded = llvm::find_if(plan.ways, [](const PlannedWay &way) {
    return way.strategy == Strategy::FullShard;
  });
  if (sharded != plan.ways.end() && gains)
    MeshSearch(options, first, plan)
        .run(PlannedWay(*sharded), PlannedWay(best));
}

// Of a strategy that was asked for, else of what takes least memory.
static const PlannedWay &leastOf(const Plan &plan) {
  return *llvm::min_element(plan.ways, [](const auto &a, const auto &b) {
    return a.memoryBytes < b.memoryBytes;
  });
}

// With the fewest chunks of MLPs with which it fits.
static void addMlpChunks(const PlanOptions &options, const PlanSearch &first,
                         const Mesh &mesh, Strategy strategy, Plan &plan) {
  if (plan.as || options.compile.mlpChunks || options.compile.strictNumerics)
    return;
  llvm::raw_null_ostream nowhere;
  Diagnostics silent("shardonnx", nowhere);
  PlanOptions tried = options;
  for (int64_t chunks = 2; chunks <= kMostTriedMlpChunks; chunks *= 2) {
    tried.compile.mlpChunks = chunks;
    PlanSearch search(tried, plan, silent);
    if (failed(search.start(mesh, 0, &first)))
      return;
    std::optional<PlannedWay> way =
        search.bestOf(strategy, plan.gpus, options.accumulate);
    if (!way)
      return;
    if (way->fits) {
      way->mlpChunks = chunks;
      plan.remedies.push_back(std::move(*way));
      return;
    }
  }
}

// More ranks for what shards most; then smaller batches, with as many tokens in
// a step; then MLPs in chunks; then larger axes, where these have not been
// tried.
void addRemedies(const PlanOptions &options, const PlanSearch &first,
                 Plan &plan) {
  if (options.compile.given.strategy && !isSharded(options.compile.strategy))
    return;
  const PlannedWay least = leastOf(plan);
  Strategy strategy = options.compile.given.strategy ? options.compile.strategy
                                                     : least.strategy;
  Mesh mesh = meshOf(least);
  llvm::raw_null_ostream nowhere;
  Diagnostics silent("shardonnx", nowhere);
  PlanSearch more(options, plan, silent);
  if (failed(more.start(mesh, 0, &first)))
    return;
  for (int64_t gpus = 2 * plan.gpus; gpus <= kMaxRanks; gpus *= 2) {
    std::optional<PlannedWay> way =
        more.bestOf(strategy, gpus, options.accumulate);
    if (way && way->fits) {
      plan.remedies.push_back(std::move(*way));
      break;
    }
  }
  int64_t whole = least.batch;
  for (int64_t batch = whole / 2; batch >= 1; batch /= 2) {
    // A model whose batch is fixed cannot take another.
    PlanSearch smaller(options, plan, silent);
    if (failed(smaller.start(mesh, batch, &first)))
      break;
    std::optional<PlannedWay> way = smaller.bestOf(
        strategy, plan.gpus, options.accumulate * (whole / batch));
    if (way && way->fits) {
      plan.remedies.push_back(std::move(*way));
      break;
    }
  }
  addMlpChunks(options, first, mesh, strategy, plan);
  bool searched = llvm::any_of(plan.ways, [&](const PlannedWay &way) {
    return axesText(way) != axesText(plan.ways.front());
  });
  if (!searched && !plan.as)
    for (MeshAxis axis : {MeshAxis::Tensor, MeshAxis::Context})
      if (std::optional<PlannedWay> way =
              MeshSearch(options, first, plan).firstThatFits(strategy, axis))
        plan.remedies.push_back(std::move(*way));
}

} // namespace shardonnx
