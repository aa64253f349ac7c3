// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes on units and the two pipelines that string them together.

#ifndef SHARDONNX_DIALECT_FSDP_TRANSFORMS_PASSES_H
#define SHARDONNX_DIALECT_FSDP_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"
#include "shardonnx/Support/SpelledOption.h"
#include "shardonnx/runtime/Choices.h"

namespace shardonnx::fsdp {

/// On the module, what `--memory-budget` has decided. Units in whose gather the
/// latency outweighs the bytes, up to so many, are merged with a neighbour.
inline constexpr llvm::StringLiteral kMergeBelowAttr = "fsdp.merge_below";
/// Names of units that are kept whatever the strategy says.
inline constexpr llvm::StringLiteral kKeepAttr = "fsdp.keep";
/// Bytes of gathered units at one time, up to which gathers start early.
inline constexpr llvm::StringLiteral kGatherBudgetAttr = "fsdp.gather_budget";

/// What passes on axes take for the GPU where nobody tells them its own: an
/// H100 of 700 TFLOPS and 3,000 GB/s that sends 375 GB/s.
inline constexpr double kFlopsPerByteSent = 1900, kMovedPerByteSent = 8,
                        kBytesPerChunk = 7.5e6;
inline constexpr int64_t kProcessors = 132, kTileRows = 128, kTileColumns = 256;

#define GEN_PASS_DECL
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"

/// From the differentiated nn module to synchronous collectives.
struct ShardOptions : mlir::PassPipelineOptions<ShardOptions> {
  Option<Strategy> strategy{*this, "strategy", llvm::cl::desc("Who keeps what"),
                            llvm::cl::init(Strategy::FullShard),
                            SpelledValues<Strategy>()};
  Option<bool> muon{*this, "muon",
                    llvm::cl::desc("The matrices of blocks are Muon's"),
                    llvm::cl::init(false)};
  Option<bool> deferGradients{
      *this, "defer-gradients",
      llvm::cl::desc("The last reduction is hidden behind products"),
      llvm::cl::init(false)};
  Option<bool> overlapAxes{
      *this, "overlap-axes",
      llvm::cl::desc("So are collectives of tensor and context axes"),
      llvm::cl::init(false)};
  Option<unsigned> axisChunks{
      *this, "axis-chunks",
      llvm::cl::desc("…by chunks of products; 0: by predicted time"),
      llvm::cl::init(0)};
  Option<double> flopsPerByteSent{
      *this, "flops-per-byte-sent",
      llvm::cl::desc("Of products, while an axis sends a byte"),
      llvm::cl::init(kFlopsPerByteSent)};
  Option<double> movedPerByteSent{
      *this, "moved-per-byte-sent",
      llvm::cl::desc("Bytes through the GPU's memory, likewise"),
      llvm::cl::init(kMovedPerByteSent)};
  Option<double> bytesPerChunk{
      *this, "bytes-per-chunk",
      llvm::cl::desc("That are sent while a chunk begins"),
      llvm::cl::init(kBytesPerChunk)};
  Option<int64_t> processors{*this, "processors", llvm::cl::desc("Of the GPU"),
                             llvm::cl::init(kProcessors)};
  Option<int64_t> tileRows{*this, "tile-rows",
                           llvm::cl::desc("Of a product's result"),
                           llvm::cl::init(kTileRows)};
  Option<int64_t> tileColumns{*this, "tile-columns", llvm::cl::desc("Likewise"),
                              llvm::cl::init(kTileColumns)};
};
void buildShardPipeline(mlir::OpPassManager &manager,
                        const ShardOptions &options);

/// From synchronous collectives to @first_microbatch, @next_microbatch, @update
/// and @eval with starts and waits.
struct ScheduleOptions : mlir::PassPipelineOptions<ScheduleOptions> {
  Option<unsigned> forwardPrefetch{*this, "forward-prefetch",
                                   llvm::cl::desc("Units ahead in forward"),
                                   llvm::cl::init(1)};
  Option<unsigned> backwardPrefetch{*this, "backward-prefetch",
                                    llvm::cl::desc("Units ahead in backward"),
                                    llvm::cl::init(1)};
  Option<bool> unshardedAccumulation{
      *this, "unsharded-accumulation",
      llvm::cl::desc("Gradients stay whole over a step's microbatches"),
      llvm::cl::init(false)};
  Option<bool> gatherEarly{
      *this, "gather-early",
      llvm::cl::desc(
          "What a step reads first is gathered in the update before"),
      llvm::cl::init(false)};
};
void buildSchedulePipeline(mlir::OpPassManager &manager,
                           const ScheduleOptions &options);

#define GEN_PASS_REGISTRATION
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"

/// Registers `fsdp-shard` and `fsdp-schedule`.
void registerFSDPPipelines();

} // namespace shardonnx::fsdp

#endif // SHARDONNX_DIALECT_FSDP_TRANSFORMS_PASSES_H
