// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "shardonnx/Driver/Pipeline.h"
#include "shardonnx/Codegen/Passes.h"
#include "shardonnx/Conversion/FSDPToExec/Passes.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Cost/Device.h"
#include "shardonnx/Dialect/Exec/Transforms/Passes.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/Differentiate/Passes.h"
#include "shardonnx/Target/Program.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace shardonnx {

/// On a GPU a unit may keep so much more, percent, to write less in backward:
/// its kernels are as fast as its memory, of which this takes the results of a
/// transformer block's norms and not those of its activations.
static constexpr unsigned kKeepPercent = 20;

/// On CPUs products of at most this depth are added to the ones that they are
/// summed with: one block of depth, so that the sums are those of a kernel.
static constexpr int64_t kAddedDepth = 128;

static bool isCuda(const CompileOptions &options) {
  return options.target == TargetKind::CUDA;
}

/// The first GPUs whose library multiplies 8 bits, and those for which it takes
/// a step for each row.
static constexpr int kFirstF8Arch = 89, kRowStepsArch = 90;

// How operands are stored where every GPU of the program multiplies 8 bits;
// elsewhere products multiply what they stand for.
static std::optional<nn::StoreF8PassOptions>
f8Storage(const CompileOptions &options) {
  if (!isCuda(options))
    return std::nullopt;
  llvm::Expected<std::vector<std::string>> chips = resolveChips(options.arch);
  if (!chips) { // checked with the options
    llvm::consumeError(chips.takeError());
    return std::nullopt;
  }
  nn::StoreF8PassOptions store;
  for (llvm::StringRef chip : *chips) {
    int arch = 0;
    if (!chip.consume_front("sm_") || chip.getAsInteger(10, arch) ||
        arch < kFirstF8Arch)
      return std::nullopt;
    store.rowSteps &= arch == kRowStepsArch;
  }
  return store;
}

// What is trained: the loss, units and dtypes.
static void addTrainingPasses(OpPassManager &pm,
                              const CompileOptions &options) {
  if (options.lora) {
    nn::AddAdaptersPassOptions adapters;
    adapters.rank = options.lora->rank;
    adapters.alpha = options.lora->alpha;
    adapters.dropout = options.lora->dropout;
    adapters.rslora = options.lora->rslora;
    adapters.dora = options.lora->dora;
    // What --freeze does not name, or --trainable does, is then trained beside
    // the adapters, as PEFT's modules_to_save are.
    adapters.freezesBase = options.freeze.empty() && options.trainable.empty();
    adapters.targets.assign(options.loraTargets.begin(),
                            options.loraTargets.end());
    if (options.loraTargets.empty())
      adapters.targets = {"all-linear"};
    pm.addPass(nn::createAddAdaptersPass(adapters));
  }
  if (!options.strictNumerics) {
    pm.addPass(nn::createGroupExpertsPass());
    pm.addPass(nn::createGroupMatmulsPass());
  }
  if (!options.freeze.empty() || !options.trainable.empty()) {
    nn::FreezePassOptions freeze;
    freeze.regexes.assign(options.freeze.begin(), options.freeze.end());
    freeze.trainable.assign(options.trainable.begin(), options.trainable.end());
    pm.addPass(nn::createFreezePass(freeze));
  }
  nn::AttachLossPassOptions loss;
  if (options.loss)
    loss.kind = spell(*options.loss);
  loss.logits = options.logits;
  loss.fuseHead = !options.strictNumerics;
  pm.addPass(nn::createAttachLossPass(loss));
  nn::DocumentMasksPassOptions documents;
  documents.separator = options.documentSeparator.value_or(-1);
  // None for cuDNN unless asked for: on an H100 its gradient of packed samples
  // was NaN where a microbatch had several of them (docs/cuda.md).
  documents.maxDocuments = options.maxDocuments.value_or(0);
  pm.addPass(nn::createDocumentMasksPass(documents));
  fsdp::AssignUnitsPassOptions units;
  units.unit.assign(options.units.begin(), options.units.end());
  units.ignore.assign(options.ignore.begin(), options.ignore.end());
  pm.addPass(fsdp::createAssignUnitsPass(units));
  nn::AssignDtypesPassOptions dtypes;
  dtypes.paramDtype = spell(options.paramDtype);
  dtypes.reduceDtype = spell(options.reduceDtype);
  if (options.outputDtype)
    dtypes.outputDtype = spell(*options.outputDtype);
  pm.addPass(nn::createAssignDtypesPass(dtypes));
  nn::SplitSequencesPassOptions sequences;
  sequences.context = options.mesh.size(MeshAxis::Context);
  sequences.tensor = options.mesh.tensor();
  sequences.attention = spell(options.contextAttention);
  // On CPUs time is that of the bytes, and rates do not depend on lengths.
  if (isCuda(options))
    sequences.device =
        deviceOfProgram(/*cuda=*/true, options.arch, /*threads=*/1).name;
  pm.addPass(nn::createSplitSequencesPass(sequences));
  nn::PartitionPassOptions partition;
  partition.replicate = options.mesh.size(MeshAxis::Replicate);
  partition.shard = options.mesh.size(MeshAxis::Shard);
  partition.context = options.mesh.size(MeshAxis::Context);
  partition.tensor = options.mesh.tensor();
  partition.tensorPlan = options.tensorPlan;
  pm.addPass(nn::createPartitionPass(partition));
  if (options.baseDtype) {
    nn::PackBasePassOptions base;
    base.packing = spell(*options.baseDtype);
    pm.addPass(nn::createPackBasePass(base));
  }
  if (!options.strictNumerics)
    pm.addPass(nn::createJoinProductsPass());
  nn::F8ProductsPassOptions products;
  products.dtype = spell(options.matmulDtype);
  // Elsewhere results are asked for, not time.
  products.leastGain = options.matmulGain.value_or(f8Storage(options) ? 1 : 0);
  pm.addPass(nn::createF8ProductsPass(products));
  nn::GatherCodesPassOptions gathers;
  gathers.dtype = spell(options.gatherDtype);
  pm.addPass(nn::createGatherCodesPass(gathers));
  pm.addNestedPass<func::FuncOp>(nn::createJoinRotariesPass());
  pm.addPass(nn::createVerifyPlacesPass());
}

// What the graph means.
static void addNNPasses(OpPassManager &pm, const CompileOptions &options) {
  RaiseOptions raise;
  raise.strictNumerics = options.strictNumerics;
  raise.dropout = options.dropout;
  raise.positionsVary = options.documentSeparator.has_value();
  buildRaisePipeline(pm, raise);
  switch (options.program) {
  case ProgramKind::Train:
    return addTrainingPasses(pm, options);
  case ProgramKind::EvalGradients:
    pm.addNestedPass<func::FuncOp>(createRemoveEmptyPass());
    pm.addPass(createSumOutputsPass());
    return;
  case ProgramKind::Eval:
    return;
  }
}

static void addGradPasses(OpPassManager &pm, const CompileOptions &options) {
  if (options.program != ProgramKind::Eval)
    pm.addPass(createDifferentiatePass());
  if (options.program == ProgramKind::Train) {
    fsdp::RecomputePassOptions recompute;
    // A budget has become a plan by then: fitRecompute.
    if (options.recompute.kind != RecomputeKind::Budget)
      recompute.recompute = options.recompute.text();
    pm.addPass(fsdp::createRecomputePass(recompute));
  } else {
    pm.addPass(createMakeEvalPass());
    pm.addNestedPass<func::FuncOp>(createRemoveEmptyPass());
  }
  // Groups are formed before parameters are gathered, so that each gather is
  // placed around the groups that read it.
  nn::ChunkMlpsPassOptions mlps;
  mlps.chunks = std::max<int64_t>(1, options.mlpChunks.value_or(1));
  bool again = mlps.chunks > 1 && options.program == ProgramKind::Train;
  nn::buildDecomposePipeline(pm, isCuda(options) ? kKeepPercent : 0, again);
  // GELU is then the library's.
  nn::FuseEpiloguesPassOptions epilogues;
  epilogues.deepest = isCuda(options) ? 0 : kAddedDepth;
  if (!options.strictNumerics)
    pm.addNestedPass<func::FuncOp>(nn::createFuseEpiloguesPass(epilogues));
  if (auto store = f8Storage(options)) {
    pm.addNestedPass<func::FuncOp>(nn::createStoreF8Pass(*store));
    pm.addPass(nn::createStoreCodesPass());
  }
  nn::FusePassOptions fuse;
  fuse.sumsBesideRows = isCuda(options);
  pm.addNestedPass<func::FuncOp>(nn::createFusePass(fuse));
  if (mlps.chunks > 1)
    pm.addPass(nn::createChunkMlpsPass(mlps));
  pm.addPass(nn::createVerifyPlacesPass());
}

// What the GPU that the program is for does while it sends to one beside it.
static void setAxisRates(fsdp::ShardOptions &shard,
                         const CompileOptions &options) {
  Device device = deviceOfProgram(/*cuda=*/true, options.arch, /*threads=*/1);
  double sent = device.within.bytesPerSecond;
  double flops =
      options.paramDtype == SHX_F32 ? device.f32Flops : device.halfFlops;
  shard.axisChunks = unsigned(options.axisChunks.value_or(0));
  shard.flopsPerByteSent = flops / sent;
  shard.movedPerByteSent = device.memoryBytesPerSecond / sent;
  constexpr double kChunkSeconds = 20e-6; // a collective's steps and launches
  shard.bytesPerChunk = kChunkSeconds * sent;
  shard.processors = int64_t(device.multiprocessors);
  shard.tileRows = int64_t(device.tileRows);
  shard.tileColumns = int64_t(device.tileColumns);
}

static void addShardPasses(OpPassManager &pm, const CompileOptions &options) {
  if (options.program != ProgramKind::Train)
    return;
  fsdp::ShardOptions shard;
  shard.strategy = options.strategy;
  shard.muon = options.optimizer == Optimizer::Muon;
  shard.deferGradients = isCuda(options);
  shard.overlapAxes = options.overlapAxes;
  if (options.overlapAxes)
    setAxisRates(shard, options);
  fsdp::buildShardPipeline(pm, shard);
}

static void addSchedulePasses(OpPassManager &pm,
                              const CompileOptions &options) {
  if (options.program != ProgramKind::Train)
    return;
  fsdp::ScheduleOptions schedule;
  schedule.forwardPrefetch = options.forwardPrefetch;
  schedule.backwardPrefetch = options.backwardPrefetch;
  schedule.unshardedAccumulation =
      options.accumulateMode == AccumulateMode::Unsharded;
  // Ranks of CPUs gather in place.
  schedule.gatherEarly = isCuda(options);
  fsdp::buildSchedulePipeline(pm, schedule);
}

// By the figures of the GPU that the program is for.
static exec::OffloadActivationsPassOptions
hostCopies(const CompileOptions &options) {
  Device device = deviceOfProgram(/*cuda=*/true, options.arch, /*threads=*/1);
  exec::OffloadActivationsPassOptions copies;
  copies.flopsPerSecond =
      options.paramDtype == SHX_F32 ? device.f32Flops : device.halfFlops;
  copies.bytesPerSecond = device.memoryBytesPerSecond;
  copies.hostBytesPerSecond = device.hostBytesPerSecond;
  copies.copySeconds = kHostCopySeconds;
  return copies;
}

static void addMemoryPasses(OpPassManager &pm, const CompileOptions &options) {
  FSDPToExecPassOptions calls;
  calls.target = options.target;
  calls.tf32 = options.tf32;
  calls.deterministic = options.strictNumerics;
  pm.addPass(createFSDPToExecPass(calls));
  if (isCuda(options))
    pm.addPass(createAddKernelWorkspacesPass());
  pm.addPass(exec::createReuseInPlacePass());
  if (options.overlapAxes)
    pm.addPass(exec::createOverlapAxesPass());
  if (options.offloadActivations)
    pm.addPass(exec::createOffloadActivationsPass(hostCopies(options)));
  if (isCuda(options) && !options.strictNumerics)
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
