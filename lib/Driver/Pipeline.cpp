// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "shardonnx/Driver/Pipeline.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"

#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace shardonnx {

static constexpr const char *kLevelNames[] = {
    "onnx", "nn", "grad", "fsdp", "schedule", "memory", "llvm", "obj", "link"};

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

static void addUnits(OpPassManager &pm, const CompileOptions &options) {
  fsdp::AssignUnitsPassOptions units;
  units.unit.assign(options.units.begin(), options.units.end());
  pm.addPass(fsdp::createAssignUnitsPass(units));
}

static void addSharding(OpPassManager &pm, const CompileOptions &options) {
  fsdp::ShardOptions shard;
  shard.strategy = llvm::StringSwitch<fsdp::Strategy>(options.strategy)
                       .Case("shard_grad_op", fsdp::Strategy::shard_grad_op)
                       .Case("no_shard", fsdp::Strategy::no_shard)
                       .Default(fsdp::Strategy::full_shard);
  shard.recompute = options.recompute == "block" ? fsdp::Recompute::block
                                                 : fsdp::Recompute::none;
  fsdp::buildShardPipeline(pm, shard);
}

static void addSchedule(OpPassManager &pm, const CompileOptions &options) {
  fsdp::ScheduleOptions schedule;
  schedule.forwardPrefetch = options.forwardPrefetch;
  schedule.backwardPrefetch = options.backwardPrefetch;
  fsdp::buildSchedulePipeline(pm, schedule);
}

void addPassesTo(Level level, OpPassManager &pm,
                 const CompileOptions &options) {
  switch (level) {
  case Level::NN:
    buildRaisePipeline(pm);
    addUnits(pm, options);
    return;
  case Level::FSDP:
    addSharding(pm, options);
    return;
  case Level::Schedule:
    addSchedule(pm, options);
    return;
  default:
    return;
  }
}

} // namespace shardonnx
