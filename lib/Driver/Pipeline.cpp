// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "shardonnx/Driver/Pipeline.h"
#include "shardonnx/Codegen/Passes.h"
#include "shardonnx/Conversion/FSDPToExec/Passes.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/Exec/Transforms/Passes.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/Differentiate/Passes.h"

#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace shardonnx {

static constexpr const char *kLevelNames[] = {
    "onnx",   "nn",  "grad", "fsdp", "schedule",
    "memory", "ptx", "llvm", "obj",  "link"};

StringRef levelName(Level level) {
  return kLevelNames[static_cast<int>(level)];
}

std::optional<Level> parseLevel(StringRef name) {
  if (name.empty())
    return Level::Link;
  for (int level = 0; level <= static_cast<int>(Level::Object); ++level)
    if (name == kLevelNames[level])
      return static_cast<Level>(level);
  return std::nullopt;
}

// What the graph means, with its loss, units and dtypes.
static void addNNPasses(OpPassManager &pm, const CompileOptions &options) {
  RaiseOptions raise;
  raise.strictNumerics = options.strictNumerics;
  raise.dropout = options.dropout;
  raise.positionsVary = options.documentSeparator.has_value();
  buildRaisePipeline(pm, raise);
  if (options.target == "cuda")
    pm.addPass(nn::createWriteOutTopKPass());
  else if (!options.strictNumerics)
    pm.addPass(nn::createGroupMatmulsPass());
  if (!options.freeze.empty()) {
    nn::FreezePassOptions freeze;
    freeze.regexes.assign(options.freeze.begin(), options.freeze.end());
    pm.addPass(nn::createFreezePass(freeze));
  }
  nn::AttachLossPassOptions loss;
  loss.kind = options.loss;
  loss.logits = options.logits;
  loss.fuseHead = !options.strictNumerics;
  pm.addPass(nn::createAttachLossPass(loss));
  nn::DocumentMasksPassOptions documents;
  documents.separator = options.documentSeparator.value_or(-1);
  pm.addPass(nn::createDocumentMasksPass(documents));
  fsdp::AssignUnitsPassOptions units;
  units.unit.assign(options.units.begin(), options.units.end());
  units.ignore.assign(options.ignore.begin(), options.ignore.end());
  pm.addPass(fsdp::createAssignUnitsPass(units));
  nn::AssignDtypesPassOptions dtypes;
  dtypes.paramDtype = options.paramDtype;
  dtypes.reduceDtype =
      options.reduceDtype.empty() ? "f32" : options.reduceDtype;
  dtypes.outputDtype = options.outputDtype;
  pm.addPass(nn::createAssignDtypesPass(dtypes));
}

static void addGradPasses(OpPassManager &pm, const CompileOptions &options) {
  pm.addPass(createDifferentiatePass());
  fsdp::RecomputePassOptions recompute;
  // A budget has become a plan by then: fitRecompute.
  if (!StringRef(options.recompute).starts_with("budget:"))
    recompute.recompute = options.recompute;
  pm.addPass(fsdp::createRecomputePass(recompute));
  // Groups are formed before parameters are gathered, so that each gather is
  // placed around the groups that read it.
  nn::buildDecomposePipeline(pm);
  // GELU is then the library's.
  if (options.target == "cuda" && !options.strictNumerics)
    pm.addNestedPass<func::FuncOp>(nn::createFuseEpiloguesPass());
  pm.addNestedPass<func::FuncOp>(nn::createFusePass());
}

static void addShardPasses(OpPassManager &pm, const CompileOptions &options) {
  fsdp::ShardOptions shard;
  shard.strategy =
      llvm::StringSwitch<fsdp::Strategy>(options.strategy)
          .Case("full_shard", fsdp::Strategy::full_shard)
          .Case("shard_grad_op", fsdp::Strategy::shard_grad_op)
          .Case("shard_opt", fsdp::Strategy::shard_opt)
          .Case("no_shard", fsdp::Strategy::no_shard)
          .Case("hybrid_shard", fsdp::Strategy::hybrid_shard)
          .Case("hybrid_shard_zero2", fsdp::Strategy::hybrid_shard_zero2);
  fsdp::buildShardPipeline(pm, shard);
}

static void addSchedulePasses(OpPassManager &pm,
                              const CompileOptions &options) {
  fsdp::ScheduleOptions schedule;
  schedule.forwardPrefetch = options.forwardPrefetch;
  schedule.backwardPrefetch = options.backwardPrefetch;
  schedule.unshardedAccumulation = options.accumulateMode == "unsharded";
  fsdp::buildSchedulePipeline(pm, schedule);
}

static void addMemoryPasses(OpPassManager &pm, const CompileOptions &options) {
  FSDPToExecPassOptions calls;
  calls.target = options.target;
  calls.tf32 = options.tf32;
  calls.deterministic = options.strictNumerics;
  pm.addPass(createFSDPToExecPass(calls));
  if (options.target == "cuda")
    pm.addPass(createAddKernelWorkspacesPass());
  pm.addPass(exec::createReuseInPlacePass());
  if (options.target == "cuda" && !options.strictNumerics)
    pm.addPass(exec::createGrowLossChunksPass());
  pm.addPass(exec::createPlanMemoryPass());
  pm.addPass(exec::createVerifyExecPass());
}

void addPassesTo(Level level, OpPassManager &pm,
                 const CompileOptions &options) {
  switch (level) {
  case Level::NN:
    return addNNPasses(pm, options);
  case Level::Grad:
    return addGradPasses(pm, options);
  case Level::FSDP:
    return addShardPasses(pm, options);
  case Level::Schedule:
    return addSchedulePasses(pm, options);
  case Level::Memory:
    return addMemoryPasses(pm, options);
  default:
    return;
  }
}

} // namespace shardonnx
