// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Options that name what does not exist, or that exclude each other.

#include "CheckOptions.h"
#include "shardonnx/InitAll.h"
#include "shardonnx/Target/Program.h"
#include "shardonnx/runtime/AskedThreads.h"

#include "mlir/Pass/PassRegistry.h"

#include <algorithm>

using namespace mlir;

namespace shardonnx {

int exitCodeOf(const Diagnostics &diagnostics) {
  return diagnostics.isUsage() ? kExitUsage : kExitInput;
}

// A name that no pass has would print nothing and not say why.
static LogicalResult checkPassNames(const CompileOptions &options,
                                    Diagnostics &diagnostics) {
  if (options.printIRAfter.empty())
    return success();
  registerAllPasses();
  for (const std::string &name : options.printIRAfter)
    if (name != "all" && !PassInfo::lookup(name))
      return diagnostics.usageError("--print-ir-after: there is no pass '" +
                                    name +
                                    "'; `shardonnx-opt --help` lists them");
  return success();
}

// What `native` lacks is the machine's fault and is told later.
static LogicalResult checkArch(const CompileOptions &options,
                               Diagnostics &diagnostics) {
  if (options.arch == "native")
    return success();
  if (options.target == TargetKind::CUDA) {
    llvm::Expected<std::vector<std::string>> chips = resolveChips(options.arch);
    if (!chips)
      return diagnostics.usageError("--arch: " +
                                    llvm::toString(chips.takeError()));
    return success();
  }
  if (StringRef(options.arch).starts_with("sm_"))
    return diagnostics.usageError("--arch: '" + options.arch +
                                  "' is a GPU; give --target=cuda, too");
  llvm::Expected<TargetSpec> target = resolveTarget(options.arch);
  if (!target)
    return diagnostics.usageError("--arch: " +
                                  llvm::toString(target.takeError()));
  return success();
}

static bool isLow(std::optional<ShxDType> dtype) {
  return dtype && *dtype != SHX_F32;
}

// Of a unit that no_shard would keep whole all the same.
static bool wantsShards(const UnitPolicy &policy) {
  return policy.reshard.value_or(0) != 0 || policy.kept;
}

LogicalResult checkMeshRanks(const Mesh &mesh, int64_t ranks,
                             Diagnostics &diagnostics) {
  int64_t each = mesh.together() *
                 std::max<int64_t>(mesh.size(MeshAxis::Replicate), 1) *
                 std::max<int64_t>(mesh.size(MeshAxis::Shard), 1);
  if (ranks % each != 0)
    return diagnostics.usageError(
        "--mesh=" + mesh.text() + " does not divide " + std::to_string(ranks) +
        " ranks; the nearest number that it does is " +
        std::to_string(std::max<int64_t>((ranks + each / 2) / each, 1) * each));
  return success();
}

// Which of the options that a plan does not know is there.
static StringRef unplannedOption(const CompileOptions &options) {
  return options.fit            ? "--fit"
         : options.memoryBudget ? "--memory-budget"
         : options.recompute.kind == RecomputeKind::Budget
             ? "--recompute=budget"
         : options.mlpChunks == 0 ? "--mlp-chunks=auto"
                                  : "";
}

LogicalResult checkPlanned(const CompileOptions &options,
                           Diagnostics &diagnostics) {
  StringRef other = unplannedOption(options);
  if (other.empty())
    return success();
  return diagnostics.usageError("plan: a plan compares ways without budgets; "
                                "leave " +
                                other + " out, and give it to compile");
}

static LogicalResult checkAuto(const CompileOptions &options,
                               Diagnostics &diagnostics) {
  StringRef other = unplannedOption(options);
  if (options.fit)
    return diagnostics.usageError(
        "--strategy=auto: --fit chooses the strategy; leave --strategy out");
  if (!other.empty())
    return diagnostics.usageError("--strategy=auto compares strategies without "
                                  "budgets; name one, or leave " +
                                  other + " out");
  return success();
}

// What 8 bits are made of must hold them.
static LogicalResult checkF8(const CompileOptions &options,
                             Diagnostics &diagnostics) {
  auto check = [&](const std::string &option, MatmulDtype matmul,
                   ShxDType param) -> LogicalResult {
    if (matmul == MatmulDtype::Param)
      return success();
    if (options.strictNumerics)
      return diagnostics.usageError(option +
                                    ": rounds the operands of products, "
                                    "which --strict-numerics excludes; "
                                    "leave one out");
    if (param == SHX_F16)
      return diagnostics.usageError(option +
                                    ": f16 does not hold what is rounded to 8 "
                                    "bits; give --param-dtype=bf16");
    return success();
  };
  if (failed(check("--matmul-dtype", options.matmulDtype, options.paramDtype)))
    return failure();
  for (auto [index, policy] : llvm::enumerate(options.unitPolicies))
    if (failed(check("--config: units[" + std::to_string(index) +
                         "]: matmul_dtype",
                     policy.matmulDtype.value_or(options.matmulDtype),
                     policy.paramDtype.value_or(options.paramDtype))))
      return failure();
  auto wants = [](const UnitPolicy &policy) {
    return policy.matmulDtype.value_or(MatmulDtype::Param) !=
           MatmulDtype::Param;
  };
  if (options.matmulGain && options.matmulDtype == MatmulDtype::Param &&
      llvm::none_of(options.unitPolicies, wants))
    return diagnostics.usageError(
        "--matmul-gain is of products of 8 bits: give "
        "--matmul-dtype=fp8 or fp8:rowwise, too");
  return success();
}

// Of parameters, as far as the options say.
static bool someUnitHas(const CompileOptions &options, ShxDType param) {
  return options.paramDtype == param ||
         llvm::any_of(options.unitPolicies, [&](const UnitPolicy &policy) {
           return policy.paramDtype == param;
         });
}

// What is gathered must be held by what products read.
static LogicalResult checkGathers(const CompileOptions &options,
                                  Diagnostics &diagnostics) {
  auto check = [&](const std::string &option, GatherDtype gather,
                   bool half) -> LogicalResult {
    if (gather == GatherDtype::Param)
      return success();
    if (options.strictNumerics)
      return diagnostics.usageError(option +
                                    ": rounds the weights, which "
                                    "--strict-numerics excludes; leave one "
                                    "out");
    if (half)
      return diagnostics.usageError(option +
                                    ": f16 does not hold what is rounded "
                                    "to it; give --param-dtype=bf16");
    return success();
  };
  if (failed(check(std::string("--gather-dtype=") + spell(options.gatherDtype),
                   options.gatherDtype, someUnitHas(options, SHX_F16))))
    return failure();
  for (auto [index, policy] : llvm::enumerate(options.unitPolicies))
    if (failed(check(
            "--config: units[" + std::to_string(index) + "]: gather_dtype",
            policy.gatherDtype.value_or(GatherDtype::Param),
            policy.paramDtype.value_or(options.paramDtype) == SHX_F16)))
      return failure();
  return success();
}

bool suitsPolicies(Strategy strategy, const CompileOptions &options) {
  return strategy != Strategy::NoShard ||
         std::none_of(options.unitPolicies.begin(), options.unitPolicies.end(),
                      wantsShards);
}

// What a unit's policy asks for must be possible in this program.
static LogicalResult checkPolicies(const CompileOptions &options,
                                   Diagnostics &diagnostics) {
  for (auto [index, policy] : llvm::enumerate(options.unitPolicies)) {
    auto error = [&](const Twine &what) {
      return diagnostics.usageError("--config: units[" + Twine(index) +
                                    "]: " + what);
    };
    if (options.strictNumerics &&
        (isLow(policy.paramDtype) || isLow(policy.outputDtype)))
      return error("kernels keep the intermediate values of narrow types in "
                   "f32, which rounds otherwise: leave the dtypes at f32 with "
                   "--strict-numerics");
    if (options.strategy == Strategy::NoShard && wantsShards(policy))
      return error("--strategy=no_shard keeps parameters whole on every rank; "
                   "leave reshard_after_forward and kept out");
    bool isRoot = policy.modules == std::vector<std::string>{"root"};
    if (policy.recompute &&
        (isRoot || options.recompute.kind == RecomputeKind::Budget))
      return error(isRoot
                       ? "the root unit is not recomputed; leave recompute out"
                       : "--recompute=budget decides for every unit; leave "
                         "recompute out");
    if (options.memoryBudget &&
        (policy.forwardPrefetch || policy.backwardPrefetch))
      return error("--memory-budget places the gathers; leave "
                   "forward_prefetch and backward_prefetch out");
    if (policy.kept.value_or(false) && policy.reshard.value_or(0) != 0)
      return error("a unit that is kept between steps is not freed after "
                   "forward; give kept or reshard_after_forward");
  }
  return success();
}

static LogicalResult checkMuon(const CompileOptions &options,
                               Diagnostics &diagnostics) {
  if (options.optimizer != Optimizer::Muon)
    return success();
  if (options.optimizerDtype == SHX_I8)
    return diagnostics.usageError(
        "--optimizer=muon keeps its momentum in f32 or "
        "bf16; take one of them as --optimizer-dtype");
  if (options.masterDtype != SHX_F32)
    return diagnostics.usageError(
        "--optimizer=muon moves masters of f32; leave "
        "--master-dtype out, or take --optimizer=adamw");
  bool rounds = llvm::any_of(options.unitPolicies, [](const UnitPolicy &unit) {
    return unit.gatherDtype.value_or(GatherDtype::Param) != GatherDtype::Param;
  });
  if (rounds || options.gatherDtype != GatherDtype::Param)
    return diagnostics.usageError(
        std::string("--optimizer=muon gathers what products read; leave ") +
        (rounds ? "gather_dtype of units" : "--gather-dtype") +
        " out, or take --optimizer=adamw");
  return success();
}

// What an axis cannot stand beside, and why.
static std::string besideAxes(const CompileOptions &options) {
  if (options.strictNumerics && options.mesh.context() > 1)
    return "--strict-numerics keeps attention as it is written out, of which "
           "the ranks of the context axis could not have parts";
  return "";
}

static LogicalResult checkMesh(const CompileOptions &options,
                               Diagnostics &diagnostics) {
  const Mesh &mesh = options.mesh;
  if (!options.tensorPlan.empty() && mesh.tensor() < 2)
    return diagnostics.usageError("--tensor-plan: there are no ranks to split "
                                  "parameters over; give --mesh=tensor:T, too");
  if (options.contextAttention != ContextAttention::Auto && mesh.context() < 2)
    return diagnostics.usageError(
        std::string("--context-attention=") + spell(options.contextAttention) +
        ": no axis has parts of sequences; give --mesh=context:C, too");
  if (options.overlapAxes && options.target != TargetKind::CUDA)
    return diagnostics.usageError(
        "--overlap-axes: ranks of CPUs copy what they "
        "exchange themselves; leave it out, or give "
        "--target=cuda, too");
  if (options.overlapAxes && mesh.tensor() * mesh.context() < 2)
    return diagnostics.usageError(
        "--overlap-axes: no tensor or context axis has "
        "collectives; give --mesh=tensor:T or "
        "--mesh=context:C, too");
  if (options.axisChunks && (!options.overlapAxes || mesh.tensor() < 2))
    return diagnostics.usageError(
        "--axis-chunks: of products beside collectives of "
        "a tensor axis; give --overlap-axes and "
        "--mesh=tensor:T, too");
  if (!mesh.given())
    return success();
  std::string option = "--mesh=" + mesh.text();
  int64_t replicas = mesh.size(MeshAxis::Replicate);
  if (replicas > 1 && !options.autoStrategy && !isHybrid(options.strategy))
    return diagnostics.usageError(
        option + ": --strategy=" + spell(options.strategy) +
        " has one replica; give --strategy=hybrid_shard or "
        "hybrid_shard_zero2, or leave replicate out");
  std::string other = mesh.together() > 1 ? besideAxes(options) : "";
  if (!other.empty())
    return diagnostics.usageError(option + ": " + other + "; leave one out");
  return checkMeshRanks(mesh, options.worldSize.value_or(0), diagnostics);
}

LogicalResult checkOptions(const CompileOptions &options,
                           Diagnostics &diagnostics, bool links) {
  bool cuda = options.target == TargetKind::CUDA;
  if (std::string wrong = askedThreads().wrong; !wrong.empty())
    return diagnostics.usageError(wrong);
  if (cuda && links && !hasCudaTarget())
    return diagnostics.usageError(
        "--target=cuda: this build has no CUDA target; install the CUDA "
        "toolkit and build again, or use --target=cpu");
  if (failed(checkMuon(options, diagnostics)) ||
      failed(checkMesh(options, diagnostics)))
    return failure();
  if (options.offloadActivations && !cuda)
    return diagnostics.usageError(
        "--offload=activations: the memory of a program "
        "for CPUs is the host's; leave it out, or compute "
        "more again with --recompute");
  if (options.tf32 && !cuda)
    return diagnostics.usageError(
        "--tf32: only --target=cuda has TF32; leave it "
        "out");
  if (options.maxDocuments && (!cuda || !options.documentSeparator))
    return diagnostics.usageError(
        "--max-documents: says which packed samples go "
        "to cuDNN; leave it out, or give --target=cuda "
        "and --document-separator=ID, too");
  if (options.tf32 && options.strictNumerics)
    return diagnostics.usageError(
        "--tf32: rounds the operands of products, which "
        "--strict-numerics excludes; leave one out");
  if (options.strictNumerics && isLow(options.paramDtype))
    return diagnostics.usageError(
        Twine("--strict-numerics: kernels keep the intermediate values of ") +
        spell(options.paramDtype) +
        " in f32, which rounds otherwise; leave --param-dtype at f32");
  if (failed(checkF8(options, diagnostics)))
    return failure();
  if (!options.loraTargets.empty() && !options.lora)
    return diagnostics.usageError(
        "--lora-targets needs --lora=RANK: the rank of "
        "the adapters");
  if (options.baseDtype && !options.lora)
    return diagnostics.usageError(
        "--base-dtype needs --lora=RANK: weights that are "
        "trained are not kept in few bits");
  if (options.baseDtype && options.strictNumerics)
    return diagnostics.usageError(
        "--base-dtype: rounds the base's weights, which "
        "--strict-numerics excludes; leave one out");
  if (options.mlpChunks.value_or(1) != 1 && options.strictNumerics)
    return diagnostics.usageError(
        "--mlp-chunks: gradients of weights are summed in "
        "another order, which --strict-numerics excludes; "
        "leave one out");
  if (options.optimizerDtype != SHX_F32 && options.strictNumerics)
    return diagnostics.usageError(
        Twine("--optimizer-dtype=") + spell(options.optimizerDtype) +
        ": rounds the optimizer's state, which --strict-numerics excludes; "
        "leave one out");
  if (options.masterDtype != SHX_F32 && options.strictNumerics)
    return diagnostics.usageError(
        "--master-dtype=bf16: rounds the master weights, "
        "which --strict-numerics excludes; leave one out");
  if (options.masterDtype != SHX_F32 && !someUnitHas(options, SHX_BF16))
    return diagnostics.usageError(
        "--master-dtype=bf16: masters of bf16 are what "
        "products read; give --param-dtype=bf16, too");
  if (failed(checkGathers(options, diagnostics)))
    return failure();
  if (options.fit && options.memoryBudget)
    return diagnostics.usageError(
        "--memory-budget: --fit makes it; leave one out");
  if ((options.memoryBudget || options.fit) && !options.worldSize)
    return diagnostics.usageError(
        Twine(options.fit ? "--fit" : "--memory-budget") +
        ": what a rank holds depends on how many there are; "
        "give the number with --world-size=N");
  if (options.autoStrategy && !options.worldSize)
    return diagnostics.usageError(
        "--strategy=auto: what a rank holds depends on "
        "how many there are; give the number with "
        "--world-size=N");
  if (options.autoStrategy && failed(checkAuto(options, diagnostics)))
    return failure();
  if (options.output == "-" && !options.emit)
    return diagnostics.usageError(
        "-o -: an executable is not written to standard "
        "output; name a file, or a level with --emit");
  if (options.emit == Level::PTX && !cuda)
    return diagnostics.usageError("--emit=ptx: only --target=cuda has PTX; use "
                                  "--emit=llvm or --emit=obj");
  if (failed(checkPolicies(options, diagnostics)) ||
      failed(checkArch(options, diagnostics)))
    return failure();
  return checkPassNames(options, diagnostics);
}

} // namespace shardonnx
