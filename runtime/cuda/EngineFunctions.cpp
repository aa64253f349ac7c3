// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the engine issues as one piece: microbatches, the update or its parts,
// an evaluation; made, prepared, and captured as graphs.

#include "Engine.h"
#include "collectives/Collectives.h"
#include "driver/Switch.h"

namespace shardonnx::rt::cuda {

// Not where an update is more than optimizers unit by unit: matrices travel
// between ranks, slices between host and device, steps are of all weights.
void CudaEngine::makeBranch() {
  if (isOff("SHARDONNX_CUDA_OVERLAP_UPDATE") || staging || muon ||
      manifest.f8Steps() > 0)
    return;
  branch = std::make_unique<UpdateBranch>(context, state->units.size());
  context.branch = branch.get();
}

void CudaEngine::makeFunctions() {
  auto make = [this](const char *name, std::function<void()> issue) {
    return std::make_unique<Function>(context, name, std::move(issue));
  };
  auto microbatch = [&](const char *name, bool first, bool last) {
    return make(name, [this, first, last] { issueMicrobatch(first, last); });
  };
  // What is done behind the last one's reductions, if anything.
  bool lastDiffers = manifest.unshardedAccumulation || topology.replicas > 1;
  int64_t count = options.accumulate;
  firstFunction = microbatch("the first microbatch", true, count == 1);
  if (count > 2 || (count > 1 && !lastDiffers))
    nextFunction = microbatch("a microbatch", false, false);
  if (count > 1 && lastDiffers)
    lastFunction = microbatch("the last microbatch", false, true);
  auto update = [&](const char *name, UpdatePart part) {
    return make(name, [this, part] { issueUpdate(part); });
  };
  updateFunction =
      update("the update", branch ? UpdatePart::Optimizers : UpdatePart::All);
  if (branch) {
    normFunction = update("the norm", UpdatePart::Norm);
    besideFunction = make("the first microbatch beside the update", [=] {
      branch->run([this] { issueUpdate(UpdatePart::Optimizers); },
                  [=] { issueMicrobatch(/*first=*/true, count == 1); });
    });
  }
  if (!options.evalData.empty())
    evalFunction =
        make("an evaluation", [this] { program.evalMicrobatch(&context); });
}

void CudaEngine::issueMicrobatch(bool first, bool last) {
  context.firstMicrobatch = first;
  context.lastMicrobatch = last;
  (first ? program.firstMicrobatch : program.nextMicrobatch)(&context);
}

void CudaEngine::issueUpdate(UpdatePart part) {
  const Cells &cells = context.cells;
  if (staging)
    staging->begin();
  if (part != UpdatePart::Optimizers)
    collectives->allGather(cells.loss, cells.losses, 2);
  context.updatePart = part;
  context.behindNorm = false;
  program.update(&context);
  context.updatePart = UpdatePart::All;
  if (staging)
    staging->end();
}

std::vector<Function *> CudaEngine::functions(bool ofUpdate) const {
  std::vector<Function *> used;
  for (const auto *function :
       {&firstFunction, &nextFunction, &lastFunction, &evalFunction})
    if (*function)
      used.push_back(function->get());
  for (const auto *function : {&normFunction, &updateFunction, &besideFunction})
    if (ofUpdate && *function)
      used.push_back(function->get());
  return used;
}

void CudaEngine::prepare() {
  for (Function *function : functions())
    function->prepare();
  log("libraries and kernels");
  if (gemm.willTime()) {
    state->fillWithNoise(compute);
    if (muon)
      muon->fillWithNoise(compute);
  }
  gemm.tune();
  log("matrix products");
}

// What libraries do at their first use, loading code and connecting ranks, is
// done before a graph is captured. Nothing of a step is in memory yet, so the
// microbatches may run on inputs that are all zero; the update may not.
void CudaEngine::warmUp() {
  for (Function *function : functions(/*ofUpdate=*/false))
    function->warmUp();
  gatherLosses();
  compute.synchronize(waiting().c_str());
  log("first runs");
}

void CudaEngine::capture() {
  if (isOff("SHARDONNX_CUDA_GRAPHS"))
    return;
  warmUp();
  std::string refused;
  for (Function *function : functions())
    if (std::string reason = function->capture(); refused.empty())
      refused = reason;
  if (!refused.empty() && context.rank == 0)
    printWarning(concat("CUDA graphs are not used, each step is launched "
                        "kernel by kernel: ",
                        refused));
  compute.synchronize("uploading CUDA graphs");
  log("graphs");
}

// What the update gathers for the next step: before the first one, and again
// where an evaluation has run, which leaves only what is kept.
void CudaEngine::gatherFirst(bool kept) {
  Function first(context, "the first gathers", [this, kept] {
    for (size_t u = 0; u < state->units.size(); ++u)
      if (manifest.units[u].early || (kept && manifest.units[u].kept))
        collectives->gatherStart(u);
  });
  first.run();
  compute.synchronize(waiting().c_str());
}

} // namespace shardonnx::rt::cuda
