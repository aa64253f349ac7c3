// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The two pipelines: sharding (what each rank keeps) and schedule (when).

#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace shardonnx;

void fsdp::buildShardPipeline(OpPassManager &manager,
                              const ShardOptions &options) {
  manager.addPass(createMergeUnitsPass());
  manager.addPass(createRecreateParametersPass());
  manager.addPass(createOrderPass());
  if (options.overlapAxes) {
    ChunkAxesPassOptions chunks;
    chunks.chunks = options.axisChunks;
    chunks.flopsPerByteSent = options.flopsPerByteSent;
    chunks.movedPerByteSent = options.movedPerByteSent;
    chunks.bytesPerChunk = options.bytesPerChunk;
    chunks.processors = options.processors;
    chunks.tileRows = options.tileRows;
    chunks.tileColumns = options.tileColumns;
    manager.addPass(createChunkAxesPass(chunks));
    manager.addPass(createOverlapAxesPass(
        {options.flopsPerByteSent, options.movedPerByteSent}));
  }
  if (options.deferGradients)
    manager.addPass(createDeferGradientsPass());
  MakeUnitsPassOptions units;
  units.strategy = options.strategy;
  units.muon = options.muon;
  manager.addPass(createMakeUnitsPass(units));
  manager.addPass(createGatherPass());
  manager.addPass(createReducePass());
  manager.addPass(createMakeUpdatePass());
  manager.addPass(createRecordFlopsPass());
  manager.addPass(createVerifyFSDPPass());
}

void fsdp::buildSchedulePipeline(OpPassManager &manager,
                                 const ScheduleOptions &options) {
  manager.addPass(createKeepUnitsPass());
  ScheduleGathersPassOptions gathers;
  gathers.forwardPrefetch = options.forwardPrefetch;
  gathers.backwardPrefetch = options.backwardPrefetch;
  manager.addPass(createScheduleGathersPass(gathers));
  ScheduleReductionsPassOptions reductions;
  reductions.unsharded = options.unshardedAccumulation;
  manager.addPass(createScheduleReductionsPass(reductions));
  manager.addPass(createSplitMicrobatchPass());
  if (options.gatherEarly)
    manager.addPass(createGatherEarlyPass());
  manager.addPass(createVerifyFSDPPass());
}

void fsdp::registerFSDPPipelines() {
  PassPipelineRegistration<ShardOptions>(
      "fsdp-shard", "Units, gathers, reductions and the update",
      buildShardPipeline);
  PassPipelineRegistration<ScheduleOptions>(
      "fsdp-schedule", "Starts and waits, first and next microbatch",
      buildSchedulePipeline);
}
