// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LLVM's NVPTX code generator in this process, then ptxas.

#include "shardonnx/Object/DeviceImages.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "shardonnx/Object/Object.h"
#include "shardonnx/Support/TemporaryFile.h"
#include "shardonnx/runtime/DependentLaunch.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"
#include <algorithm>
#include <future>

using namespace mlir;
using namespace shardonnx;

/// bf16 conversions and asynchronous launches begin with the first.
static constexpr int kChips[] = {80, 86, 87, 89, 90, 100, 103, 110, 120, 121};
static constexpr const char *kTriple = "nvptx64-nvidia-cuda";

static llvm::Error failWith(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

static int archOf(StringRef chip) {
  int arch = 0;
  bool valid = chip.consume_front("sm_") && !chip.getAsInteger(10, arch);
  return valid && llvm::is_contained(kChips, arch) ? arch : 0;
}

llvm::Error shardonnx::checkDeviceChip(StringRef chip) {
  if (archOf(chip) != 0)
    return llvm::Error::success();
  std::string known;
  for (int arch : kChips)
    known += (known.empty() ? "sm_" : ", sm_") + std::to_string(arch);
  return failWith("unknown GPU '" + chip + "': use one of " + known);
}

static llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
makeTargetMachine(StringRef chip) {
  static const bool initialized = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)initialized;
  llvm::Triple triple(kTriple);
  std::string message;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return failWith("this LLVM has no code generator for GPUs: " + message);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, chip, "", options, std::nullopt, std::nullopt,
      llvm::CodeGenOptLevel::Aggressive));
  if (!machine)
    return failWith("no target machine for " + chip);
  return machine;
}

// Kernels begin by waiting for what they come behind, so that they may be
// launched before that has ended, and then let what comes behind them be
// launched. The clobber keeps every load and store behind both.
static void addGridDependencies(llvm::Module &module) {
  llvm::FunctionType *type = llvm::FunctionType::get(
      llvm::Type::getVoidTy(module.getContext()), /*isVarArg=*/false);
  llvm::InlineAsm *code =
      llvm::InlineAsm::get(type,
                           "griddepcontrol.wait;\n\t"
                           "griddepcontrol.launch_dependents;",
                           "~{memory}", /*hasSideEffects=*/true);
  for (llvm::Function &function : module)
    if (function.getCallingConv() == llvm::CallingConv::PTX_Kernel)
      llvm::IRBuilder<>(&function.getEntryBlock(),
                        function.getEntryBlock().getFirstInsertionPt())
          .CreateCall(type, code);
}

llvm::Expected<std::string> shardonnx::emitPTX(ModuleOp device,
                                               StringRef chip) {
  if (llvm::Error error = checkDeviceChip(chip))
    return error;
  auto machine = makeTargetMachine(chip);
  if (!machine)
    return machine.takeError();
  registerBuiltinDialectTranslation(*device.getContext());
  registerLLVMDialectTranslation(*device.getContext());
  registerNVVMDialectTranslation(*device.getContext());
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(device, context, "kernels");
  if (!module)
    return failWith("a module of another dialect than llvm and nvvm reached "
                    "the code generator of GPUs");
  module->setTargetTriple(llvm::Triple(kTriple));
  module->setDataLayout((*machine)->createDataLayout());
  optimizeModule(*module, **machine);
  if (archOf(chip) >= kDependentLaunchArch)
    addGridDependencies(*module);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager codegen;
  if ((*machine)->addPassesToEmitFile(codegen, stream, nullptr,
                                      llvm::CodeGenFileType::AssemblyFile))
    return failWith("cannot write PTX");
  codegen.run(*module);
  return text.str().str();
}

llvm::Expected<std::string> shardonnx::findPtxas() {
  std::vector<std::string> candidates = {SHARDONNX_PTXAS};
  if (auto home = llvm::sys::Process::GetEnv("CUDA_HOME"))
    candidates.push_back(*home + "/bin/ptxas");
  candidates.push_back("/usr/local/cuda/bin/ptxas");
  for (const std::string &candidate : candidates)
    if (llvm::sys::fs::can_execute(candidate))
      return candidate;
  if (auto found = llvm::sys::findProgramByName("ptxas"))
    return *found;
  return failWith("cannot find ptxas, the assembler of the CUDA toolkit: "
                  "install CUDA 13 or set CUDA_HOME to where it lies");
}

namespace {

/// A file of a given end in the temporary folder.
struct Scratch {
  static llvm::Expected<std::unique_ptr<Scratch>> make(StringRef suffix) {
    llvm::SmallString<128> path;
    if (std::error_code error =
            llvm::sys::fs::createTemporaryFile("shardonnx", suffix, path))
      return failWith(cannotWriteTemporary(error));
    return std::make_unique<Scratch>(path);
  }
  explicit Scratch(StringRef path) : path(path), remover(path) {}

  std::string path;
  TemporaryFile remover;
};

} // namespace

static llvm::Expected<std::string> readFile(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return failWith("cannot read '" + path +
                    "': " + buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

static llvm::Expected<std::string>
assemble(StringRef ptxas, StringRef ptx, StringRef chip, std::string &report) {
  auto input = Scratch::make("ptx"), output = Scratch::make("cubin"),
       log = Scratch::make("log");
  llvm::Error missing = joinErrors(
      joinErrors(input.takeError(), output.takeError()), log.takeError());
  if (missing)
    return missing;
  std::error_code error;
  llvm::raw_fd_ostream stream((*input)->path, error);
  if (!error) {
    stream << ptx;
    stream.close();
    error = stream.error();
    stream.clear_error();
  }
  if (error)
    return failWith(cannotWriteTemporary(error));
  std::string arch = "-arch=" + chip.str();
  StringRef arguments[] = {ptxas,           "-v",          "-O3", arch, "-o",
                           (*output)->path, (*input)->path};
  std::optional<StringRef> redirects[] = {
      StringRef(""), StringRef((*log)->path), StringRef((*log)->path)};
  std::string message;
  int status = llvm::sys::ExecuteAndWait(ptxas, arguments, std::nullopt,
                                         redirects, 0, 0, &message);
  auto text = readFile((*log)->path);
  if (!text)
    return text.takeError();
  if (status != 0)
    return failWith(
        "ptxas failed for " + chip + ": " +
        (message.empty() ? StringRef(*text).split('\n').first.str() : message));
  report = *text;
  return readFile((*output)->path);
}

llvm::Expected<DeviceImages>
shardonnx::emitDeviceImages(ModuleOp device, ArrayRef<std::string> chips) {
  assert(!chips.empty() && "no chip to make code for");
  auto ptxas = findPtxas();
  if (!ptxas)
    return ptxas.takeError();
  std::vector<std::string> sorted(chips.begin(), chips.end());
  llvm::sort(sorted, [](const std::string &a, const std::string &b) {
    return archOf(a) < archOf(b);
  });
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());

  // One assembler for each chip, side by side.
  struct Job {
    std::string ptx, report, failure;
    std::string cubin;
  };
  std::vector<Job> jobs(sorted.size());
  std::vector<std::future<void>> running;
  llvm::Error failed = llvm::Error::success();
  for (auto [chip, job] : llvm::zip_equal(sorted, jobs)) {
    auto ptx = emitPTX(device, chip);
    if (!ptx) {
      failed = joinErrors(std::move(failed), ptx.takeError());
      break;
    }
    job.ptx = std::move(*ptx);
    running.push_back(std::async(
        std::launch::async,
        [&ptxas](const std::string &chip, Job *job) {
          auto cubin = assemble(*ptxas, job->ptx, chip, job->report);
          if (cubin)
            job->cubin = std::move(*cubin);
          else
            job->failure = llvm::toString(cubin.takeError());
        },
        chip, &job));
  }
  for (std::future<void> &each : running)
    each.wait();
  if (failed)
    return failed;
  DeviceImages images;
  for (auto [chip, job] : llvm::zip_equal(sorted, jobs)) {
    if (!job.failure.empty())
      return failWith(job.failure);
    images.cubins.push_back({archOf(chip), std::move(job.cubin)});
    images.report += job.report;
  }
  images.ptx = {archOf(sorted.back()), std::move(jobs.back().ptx)};
  return images;
}
