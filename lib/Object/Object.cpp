// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LLVM's optimiser and code generator, driven for one processor.

#include "shardonnx/Object/Object.h"
#include "SplitModule.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "shardonnx/Object/ObjectCache.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"
#include "llvm/TargetParser/Triple.h"

using namespace mlir;
using namespace shardonnx;

static llvm::Error failWith(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

// How hard the code generator works.
static constexpr auto kKernels = llvm::CodeGenOptLevel::Aggressive;
static constexpr auto kCalls = llvm::CodeGenOptLevel::None;

static void initializeTargets() {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
}

static llvm::Expected<const llvm::Target *>
lookupTarget(const TargetSpec &spec) {
  initializeTargets();
  std::string message;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(llvm::Triple(spec.triple), message);
  if (!target)
    return failWith("no code generator for " + spec.triple + ": " + message);
  return target;
}

static llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
makeTargetMachine(const TargetSpec &spec,
                  llvm::CodeGenOptLevel level = kKernels) {
  llvm::Expected<const llvm::Target *> target = lookupTarget(spec);
  if (!target)
    return target.takeError();
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  std::unique_ptr<llvm::TargetMachine> machine((*target)->createTargetMachine(
      llvm::Triple(spec.triple), spec.cpu, spec.features, options,
      llvm::Reloc::PIC_, std::nullopt, level));
  if (!machine)
    return failWith("no target machine for " + spec.triple);
  return machine;
}

static std::string hostFeatures() {
  std::vector<std::string> features;
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    features.push_back((feature.second ? "+" : "-") + feature.first().str());
  return llvm::join(features, ",");
}

llvm::Expected<TargetSpec> shardonnx::resolveTarget(StringRef arch) {
  TargetSpec spec;
  spec.triple = llvm::sys::getDefaultTargetTriple();
  bool native = arch == "native";
  spec.cpu = native ? llvm::sys::getHostCPUName().str() : arch.str();
  if (native)
    spec.features = hostFeatures();
  llvm::Expected<const llvm::Target *> target = lookupTarget(spec);
  if (!target)
    return target.takeError();
  llvm::Triple triple(spec.triple);
  // A generic subtarget answers which names exist without complaining itself.
  std::unique_ptr<llvm::MCSubtargetInfo> generic(
      (*target)->createMCSubtargetInfo(triple, "", ""));
  if (!native && !generic->isCPUStringValid(arch))
    return failWith(
        "unknown processor '" + arch +
        "': use native, x86-64-v3, x86-64-v4 or a name that `llc -mcpu=help` "
        "lists");
  std::unique_ptr<llvm::MCSubtargetInfo> info(
      (*target)->createMCSubtargetInfo(triple, spec.cpu, spec.features));
  if (!info->checkFeatures("+avx2") || !info->checkFeatures("+fma") ||
      !info->checkFeatures("+f16c"))
    return failWith("processor '" + spec.cpu +
                    "' has no AVX2, FMA and F16C, "
                    "which compiled models need: --arch must be x86-64-v3 or "
                    "later");
  if (info->checkFeatures("+avx512f") && info->checkFeatures("+avx512vl") &&
      info->checkFeatures("+avx512bw"))
    spec.vectorBits = 512;
  spec.nativeBF16 = info->checkFeatures("+avx512bf16");
  return spec;
}

/// Every function is compiled for the processor, at its full vector width.
static void attachTarget(llvm::Module &module, const TargetSpec &spec,
                         llvm::TargetMachine &machine) {
  module.setTargetTriple(llvm::Triple(spec.triple));
  module.setDataLayout(machine.createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
  std::string width = llvm::utostr(spec.vectorBits);
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", spec.cpu);
    if (!spec.features.empty())
      function.addFnAttr("target-features", spec.features);
    function.addFnAttr("prefer-vector-width", width);
    function.addFnAttr("min-legal-vector-width", width);
    // Kernels call nothing. What the runtime's calls throw goes through the
    // other functions to the training loop, which tells it.
    if (function.hasInternalLinkage())
      function.setDoesNotThrow();
    else
      function.setUWTableKind(llvm::UWTableKind::Default);
  }
}

void shardonnx::optimizeModule(llvm::Module &module,
                               llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager cgscc;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  // Kernels come vectorised and unrolled as their generator wants them.
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopUnrolling = false;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(cgscc);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, cgscc, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3)
      .run(module, modules);
}

// To LLVM IR for the processor.
static llvm::Expected<std::unique_ptr<llvm::Module>>
translate(ModuleOp module, const TargetSpec &spec, llvm::LLVMContext &context,
          llvm::TargetMachine &machine) {
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  std::unique_ptr<llvm::Module> translated =
      translateModuleToLLVMIR(module, context, "model");
  if (!translated)
    return failWith("a module of another dialect than llvm reached the code "
                    "generator");
  attachTarget(*translated, spec, machine);
  return translated;
}

llvm::Expected<std::string> shardonnx::emitLLVMIR(ModuleOp module,
                                                  const TargetSpec &spec) {
  auto machine = makeTargetMachine(spec);
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext context;
  auto translated = translate(module, spec, context, **machine);
  if (!translated)
    return translated.takeError();
  optimizeModule(**translated, **machine);
  std::string text;
  llvm::raw_string_ostream stream(text);
  (*translated)->print(stream, nullptr);
  return text;
}

// Runs on a thread of its own.
static llvm::Error compilePart(const ModulePart &part, const TargetSpec &spec,
                               ObjectBytes &object) {
  auto machine = makeTargetMachine(spec, part.isKernel ? kKernels : kCalls);
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext context;
  auto module = readPart(part, context);
  if (!module)
    return module.takeError();
  if (part.isKernel)
    optimizeModule(**module, **machine);
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager codegen;
  if ((*machine)->addPassesToEmitFile(codegen, stream, nullptr,
                                      llvm::CodeGenFileType::ObjectFile))
    return failWith("cannot write object files for " + spec.triple);
  codegen.run(**module);
  return llvm::Error::success();
}

static llvm::Expected<std::vector<ModulePart>> partsOf(ModuleOp module,
                                                       const TargetSpec &spec) {
  auto machine = makeTargetMachine(spec);
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext context;
  auto translated = translate(module, spec, context, **machine);
  if (!translated)
    return translated.takeError();
  return splitModule(**translated);
}

namespace {

/// A part on its way to an object.
struct PartWork {
  std::string key; // in the cache
  bool found = false;
  std::string error;
};

} // namespace

llvm::Error shardonnx::emitObjects(ModuleOp module, const TargetSpec &spec,
                                   const ObjectCache *cache,
                                   std::vector<ObjectBytes> &objects,
                                   llvm::function_ref<void()> translated) {
  auto parts = partsOf(module, spec);
  if (!parts)
    return parts.takeError();
  translated();
  objects.assign(parts->size(), {});
  std::vector<PartWork> works(parts->size());
  llvm::DefaultThreadPool pool(llvm::hardware_concurrency());
  auto make = [&](const ModulePart &part, PartWork &work, ObjectBytes &object) {
    if (cache) {
      work.key = cache->keyOf(part.bitcode);
      if (auto bytes = cache->find(work.key)) {
        object = std::move(*bytes);
        work.found = true;
        return;
      }
    }
    if (llvm::Error error = compilePart(part, spec, object))
      work.error = llvm::toString(std::move(error));
  };
  for (auto [part, work, object] : llvm::zip(*parts, works, objects))
    pool.async(make, std::cref(part), std::ref(work), std::ref(object));
  pool.wait();
  bool stored = false;
  for (auto [work, object] : llvm::zip(works, objects)) {
    if (!work.error.empty())
      return failWith(work.error);
    if (!cache || work.found)
      continue;
    cache->store(work.key, object);
    stored = true;
  }
  if (stored)
    cache->prune();
  return llvm::Error::success();
}
