// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Import, then one pass manager a level, so that each level can be printed,
// dumped and timed by its name.

#include "shardonnx/Driver/Compilation.h"
#include "ExternalFiles.h"
#include "Fit.h"
#include "FoldNumbers.h"
#include "MaskChoice.h"
#include "OutputCheck.h"
#include "Trial.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Dialect/NN/IR/UnitPolicy.h"
#include "shardonnx/Dialect/ONNX/IR/Untrained.h"
#include "shardonnx/Driver/Pipeline.h"
#include "shardonnx/InitAll.h"
#include "shardonnx/Object/ObjectCache.h"
#include "shardonnx/Support/ElementType.h"
#include "shardonnx/Support/TemporaryFile.h"
#include "shardonnx/Target/Link.h"
#include "shardonnx/runtime/ByteSize.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <malloc.h>

using namespace mlir;

namespace shardonnx {

// What one level has freed, the C library would keep for the next, which needs
// it in other sizes.
static void giveBackMemory() { ::malloc_trim(0); }

Compilation::Compilation(const CompileOptions &options,
                         Diagnostics &diagnostics, ImportOptions import)
    : options(options), diags(diagnostics), importOptions(std::move(import)),
      context(MLIRContext::Threading::DISABLED) {
  importOptions.model = options.model;
  importOptions.batch = options.batch;
  importOptions.seq = options.seq;
  for (const auto &[name, size] : options.dims)
    importOptions.dims[name] = size;
  importOptions.trainableGiven =
      !options.freeze.empty() || !options.trainable.empty() || options.lora;
  importOptions.freeze = options.freeze;
  importOptions.trainable = options.trainable;
  if (!importOptions.isSupported)
    importOptions.isSupported = isRaisable;
  importOptions.foldNumbers = foldNumbers;
  DialectRegistry registry;
  registerAllDialects(registry);
  context.appendDialectRegistry(registry);
  handler = diags.capture(&context, options.model);
  timing.setEnabled(options.timing);
  timing.setDisplayMode(DefaultTimingManager::DisplayMode::Tree);
  timingRoot = timing.getRootScope();
}

// What the configuration's `units` say, for nn-assign-units to read.
static ArrayAttr unitRules(Builder &b, const CompileOptions &options) {
  SmallVector<Attribute> rules;
  for (const UnitPolicy &policy : options.unitPolicies) {
    NamedAttrList rule;
    SmallVector<StringRef> modules(policy.modules.begin(),
                                   policy.modules.end());
    rule.set("modules", b.getStrArrayAttr(modules));
    if (policy.together)
      rule.set("together", b.getUnitAttr());
    auto setType = [&](StringRef key, std::optional<ShxDType> dtype) {
      if (dtype)
        rule.set(key, TypeAttr::get(typeOfDtype(b.getContext(), *dtype)));
    };
    auto setNumber = [&](StringRef key, std::optional<int64_t> value) {
      if (value)
        rule.set(key, b.getI64IntegerAttr(*value));
    };
    auto setTruth = [&](StringRef key, std::optional<bool> value) {
      if (value)
        rule.set(key, b.getBoolAttr(*value));
    };
    setType(nn::kParamDtypeKey, policy.paramDtype);
    setType(nn::kReduceDtypeKey, policy.reduceDtype);
    setType(nn::kOutputDtypeKey, policy.outputDtype);
    if (policy.matmulDtype)
      rule.set(nn::kMatmulDtypeKey,
               b.getStringAttr(spell(*policy.matmulDtype)));
    if (policy.gatherDtype)
      rule.set(nn::kGatherDtypeKey,
               b.getStringAttr(spell(*policy.gatherDtype)));
    setTruth(nn::kCastInputsKey, policy.castForwardInputs);
    setNumber(nn::kReshardKey, policy.reshard);
    if (policy.recompute)
      rule.set(nn::kRecomputeKey, b.getStringAttr(spell(*policy.recompute)));
    setNumber(nn::kForwardPrefetchKey, policy.forwardPrefetch);
    setNumber(nn::kBackwardPrefetchKey, policy.backwardPrefetch);
    setTruth(nn::kKeptKey, policy.kept);
    rules.push_back(rule.getDictionary(b.getContext()));
  }
  return b.getArrayAttr(rules);
}

LogicalResult Compilation::import() {
  TimingScope scope = timingRoot.nest("import");
  moduleRef = importOnnx(context, importOptions, diags);
  if (!moduleRef)
    return failure();
  gradientsUntold = module()->removeAttr(onnx::kGradientsUntoldAttr) != nullptr;
  Builder builder(&context);
  if (!options.unitPolicies.empty())
    module()->setAttr(nn::kUnitRulesAttr, unitRules(builder, options));
  return success();
}

// What the raise assumes of the graph.
void Compilation::prepareRaise() {
  auto yes = UnitAttr::get(&context);
  if (options.program == ProgramKind::Train) {
    // Positions that restart in documents are read in any case.
    if (options.positionIds == PositionMode::Input &&
        !options.documentSeparator)
      module()->setAttr(onnx::kReadPositionsAttr, yes);
    return chooseMasks(module(), options);
  }
  module()->setAttr(kEvaluateAttr, yes);
  if (options.program == ProgramKind::EvalGradients)
    module()->setAttr(kDifferentiateAttr, yes);
}

// Locations stand where they belong to, in the form that is read back.
static OpPrintingFlags printingFlags(const CompileOptions &options) {
  OpPrintingFlags flags;
  if (options.printLocations)
    flags.enableDebugInfo(true, /*prettyForm=*/false).useLocalScope();
  return flags;
}

// `--print-ir-after` names passes as mlir-opt does: by their argument.
static void enablePrinting(PassManager &pm, const CompileOptions &options) {
  if (options.printIRAfter.empty())
    return;
  bool all = llvm::is_contained(options.printIRAfter, "all");
  auto wanted = [all, names = options.printIRAfter](Pass *pass, Operation *) {
    return all || llvm::is_contained(names, pass->getArgument());
  };
  pm.enableIRPrinting([](Pass *, Operation *) { return false; }, wanted,
                      /*printModuleScope=*/true,
                      /*printAfterOnlyOnChange=*/false,
                      /*printAfterOnlyOnFailure=*/false, llvm::errs(),
                      printingFlags(options));
}

LogicalResult Compilation::runPasses(Level level) {
  if (level == Level::Grad && options.mlpChunks == 0) {
    FailureOr<const ProgramOptions *> told = programOptions();
    if (failed(told))
      return failure();
    chooseMlpChunks(module(), options, **told, diags);
  }
  if (level == Level::Grad && failed(fitBytes()))
    return failure();
  if (level == Level::Grad && options.recompute.kind == RecomputeKind::Budget &&
      !module()->hasAttr(fsdp::kRecomputePlanAttr) && failed(fitRecompute()))
    return failure();
  if (level == Level::FSDP && options.memoryBudget && failed(fitMemory()))
    return failure();
  if (level == Level::NN)
    prepareRaise();
  PassManager pm(&context);
  addPassesTo(level, pm, options);
  if (pm.empty())
    return success();
  enablePrinting(pm, options);
  TimingScope scope = timingRoot.nest(spell(level));
  pm.enableTiming(scope);
  unsigned errorsBefore = diags.errors();
  if (succeeded(pm.run(module())))
    return success();
  // A pass that fails has said why.
  if (diags.errors() == errorsBefore)
    return diags.internalError(options.model + ": the passes to level '" +
                               spell(level) + "' failed without a reason");
  return failure();
}

// The executable refuses weights of another one.
static FileHash hashOfModel(const std::string &path) {
  return hashOfFile(path, /*every=*/0);
}

// Beside the passes: it takes as long as they do where the weights are in the
// model's file. Where there is no memory for a thread, when it is asked for.
void Compilation::startHashing() {
  if (options.program == ProgramKind::Train && !program && !modelHash.valid())
    modelHash = std::async(std::launch::async | std::launch::deferred,
                           hashOfModel, options.model);
}

void Compilation::startHashingExternal() {
  if (options.program == ProgramKind::Train && !externalFiles.valid())
    externalFiles = std::async(std::launch::async | std::launch::deferred,
                               describeExternalFiles, options.model,
                               externalFilesOf(module(), options.model));
}

// A GPU program's host code only makes calls, and runs on other machines.
FailureOr<TargetSpec> Compilation::hostTarget() {
  bool cuda = options.target == TargetKind::CUDA;
  llvm::Expected<TargetSpec> target =
      resolveTarget(cuda ? "x86-64-v3" : options.arch);
  if (!target)
    return diags.error("--arch: " + llvm::toString(target.takeError()));
  return *target;
}

// Once for a compilation: hashing the model takes a while.
FailureOr<const ProgramOptions *> Compilation::programOptions() {
  if (program)
    return &*program;
  ProgramOptions made;
  made.name = llvm::sys::path::stem(options.model).str();
  llvm::SmallString<128> path(options.model);
  if (std::error_code error = llvm::sys::fs::make_absolute(path))
    return diags.error("'" + options.model +
                       "': its folder cannot be told: " + error.message());
  llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
  made.modelPath = path.str().str();
  FileHash hash =
      modelHash.valid() ? modelHash.get() : hashOfModel(options.model);
  if (hash.error)
    return diags.error("'" + options.model +
                       "': cannot be read: " + hash.error.message());
  made.modelSha256 = hash.hex;
  made.device = options.target;
  made.arch = options.arch;
  if (options.target == TargetKind::CUDA) {
    llvm::Expected<std::vector<std::string>> chips = resolveChips(options.arch);
    if (!chips)
      return diags.error("--arch: " + llvm::toString(chips.takeError()));
    made.chips = *chips;
    made.arch = llvm::join(made.chips, ",");
  }
  FailureOr<TargetSpec> target = hostTarget();
  if (failed(target))
    return failure();
  made.target = *target;
  made.strategy = options.strategy;
  made.optimizer = options.optimizer;
  made.types = {options.optimizerDtype, options.masterDtype,
                options.gatherDtype};
  program = std::move(made);
  return &*program;
}

FailureOr<std::string> Compilation::manifest() {
  FailureOr<const ProgramOptions *> program = programOptions();
  if (failed(program))
    return failure();
  return buildManifest(module(), **program);
}

LogicalResult Compilation::lowerDevice() {
  if (options.target != TargetKind::CUDA)
    return success();
  TimingScope scope = timingRoot.nest("ptx");
  FailureOr<const ProgramOptions *> program = programOptions();
  if (failed(program))
    return failure();
  llvm::Expected<DeviceProgram> built = buildDeviceProgram(module(), **program);
  if (!built)
    return diags.error("'" + options.model + "': code generation failed: " +
                       llvm::toString(built.takeError()));
  device = std::move(*built);
  return success();
}

// What is run once has neither a manifest nor an update.
LogicalResult Compilation::lower() {
  TimingScope scope = timingRoot.nest("llvm");
  if (options.program != ProgramKind::Train) {
    FailureOr<TargetSpec> target = hostTarget();
    return failed(target) ? failure() : buildEvalProgram(module(), *target);
  }
  FailureOr<const ProgramOptions *> program = programOptions();
  if (failed(program))
    return failure();
  ProgramOptions whole = **program;
  startHashingExternal(); // unless it was
  whole.external = externalFiles.get();
  return buildProgram(module(), whole, device ? &*device : nullptr);
}

LogicalResult Compilation::emitObject() {
  TimingScope scope = timingRoot.nest("object");
  FailureOr<TargetSpec> target = hostTarget();
  if (failed(target))
    return failure();
  auto fail = [&](llvm::Error error) {
    return diags.error("'" + options.model + "': code generation failed: " +
                       llvm::toString(std::move(error)));
  };
  if (options.emit == Level::LLVM) {
    llvm::Expected<std::string> text = emitLLVMIR(module(), *target);
    if (!text)
      return fail(text.takeError());
    llvmIR = std::move(*text);
    return success();
  }
  std::optional<ObjectCache> cache;
  if (options.cache)
    cache = ObjectCache::openDefault();
  auto freeModule = [&] {
    moduleRef = nullptr;
    giveBackMemory();
  };
  if (llvm::Error error = emitObjects(
          module(), *target, cache ? &*cache : nullptr, objects, freeModule))
    return fail(std::move(error));
  return success();
}

LogicalResult Compilation::link(StringRef output) {
  TimingScope scope = timingRoot.nest("link");
  if (llvm::Error error = linkExecutable(objects, output, device.has_value()))
    return diags.error(llvm::toString(std::move(error)));
  return success();
}

LogicalResult Compilation::dump(Level level) {
  if (options.dumpDir.empty() || level >= Level::Object ||
      (level == Level::PTX && !device))
    return success();
  if (std::error_code error =
          llvm::sys::fs::create_directories(options.dumpDir))
    return diags.error("--dump-dir: cannot create '" + options.dumpDir +
                       "': " + error.message());
  if (!llvm::sys::fs::is_directory(options.dumpDir))
    return diags.error("--dump-dir: '" + options.dumpDir +
                       "' is no folder; name another");
  llvm::SmallString<128> path(options.dumpDir);
  llvm::sys::path::append(path, std::to_string(static_cast<int>(level)) + "-" +
                                    spell(level) +
                                    (level == Level::PTX ? ".ptx" : ".mlir"));
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (failed(print(stream)))
    return failure();
  return writeFileAtomically(diags, path, text);
}

// Of all ranks of the tensor axis, where each has a part.
static int64_t wholeElements(nn::ParameterOp parameter) {
  auto type = cast<ShapedType>(parameter.getType());
  int64_t elements = type.getNumElements();
  std::optional<Split> split = nn::splitOf(parameter);
  return split
             ? elements / type.getDimSize(unsigned(split->dim)) * split->size()
             : elements;
}

// What the step trains, in words.
static std::string describeTrained(ModuleOp module) {
  int64_t count = 0;
  bool all = true;
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    all &= parameter.getTrainable();
    if (parameter.getTrainable())
      count += wholeElements(parameter);
  }
  return (all ? "all parameters train ("
              : "what the loss depends on trains (") +
         std::to_string(count) + " elements)";
}

void Compilation::noteGradientsUntold() {
  if (!gradientsUntold || importOptions.trainableGiven)
    return;
  diags.note("'" + options.model + "': " + trained +
             ": the export does not say what has requires_grad=False; "
             "--freeze=REGEX or --trainable=REGEX does, or "
             "models/shardonnx_export.py");
}

LogicalResult Compilation::runTo(Level level) {
  if (level >= Level::LLVM)
    startHashing();
  int next = reached ? static_cast<int>(*reached) + 1 : 0;
  for (; next <= static_cast<int>(level); ++next) {
    Level now = static_cast<Level>(next);
    if (failed(runLevel(now)))
      return failure();
    if (now == Level::Onnx &&
        failed(checkIsNoInput("-o", options.output,
                              weightFilesOf(module(), options.model), diags)))
      return failure();
    if (now == std::min(level, Level::Grad) && failed(reportUntrained()))
      return failure();
    if (now == Level::Grad && gradientsUntold)
      trained = describeTrained(module());
    reached = now;
    if (now == Level::NN && level >= Level::LLVM)
      startHashingExternal();
    giveBackMemory();
    if (failed(dump(now)))
      return failure();
  }
  return success();
}

LogicalResult Compilation::runLevel(Level level) {
  Diagnostics::Hold hold(diags);
  switch (level) {
  case Level::Onnx:
    return import();
  case Level::PTX:
    return lowerDevice();
  case Level::LLVM:
    return lower();
  case Level::Object:
    return emitObject();
  default:
    return runPasses(level);
  }
}

LogicalResult Compilation::print(llvm::raw_ostream &out) {
  if (reached == Level::Object && options.emit == Level::LLVM) {
    out << llvmIR;
    return success();
  }
  if (reached == Level::Object) {
    llvm::Expected<ObjectBytes> object = combineObjects(objects);
    if (!object)
      return diags.error(llvm::toString(object.takeError()));
    out << StringRef(object->data(), object->size());
    return success();
  }
  if (reached == Level::PTX && device) {
    out << device->ptx();
    return success();
  }
  module().print(out, printingFlags(options));
  out << '\n';
  return success();
}

static LogicalResult cannotWrite(Diagnostics &diagnostics, StringRef path,
                                 std::error_code error) {
  return diagnostics.error("cannot write '" + path + "': " + error.message());
}

// A device or a pipe is written as it is: renaming would replace it.
static bool isWrittenInPlace(StringRef path) {
  return llvm::sys::fs::exists(path) && !llvm::sys::fs::is_regular_file(path);
}

static LogicalResult writeInPlace(Diagnostics &diagnostics, StringRef path,
                                  StringRef content) {
  std::error_code error;
  llvm::raw_fd_ostream out(path, error, llvm::sys::fs::CD_OpenExisting);
  if (!error) {
    out << content;
    out.close();
    error = out.error();
    out.clear_error();
  }
  return error ? cannotWrite(diagnostics, path, error) : success();
}

LogicalResult checkFileIsWritable(Diagnostics &diagnostics, StringRef path) {
  if (isWrittenInPlace(path))
    return success();
  std::string temporary;
  int fd = -1;
  if (std::error_code error = TemporaryFile::createBeside(path, fd, temporary))
    return cannotWrite(diagnostics, path, error);
  TemporaryFile empty(temporary); // which goes with it
  std::error_code error = llvm::sys::fs::closeFile(fd);
  return error ? cannotWrite(diagnostics, path, error) : success();
}

LogicalResult writeFileAtomically(Diagnostics &diagnostics, StringRef path,
                                  StringRef content) {
  if (isWrittenInPlace(path))
    return writeInPlace(diagnostics, path, content);
  std::string temporary;
  int fd = -1;
  if (std::error_code error = TemporaryFile::createBeside(path, fd, temporary))
    return cannotWrite(diagnostics, path, error);
  TemporaryFile half(temporary);
  {
    llvm::raw_fd_ostream out(fd, /*shouldClose=*/true);
    out << content;
    out.close();
    if (out.has_error()) {
      std::error_code error = out.error();
      out.clear_error();
      return cannotWrite(diagnostics, path, error);
    }
  }
  if (std::error_code error = half.moveTo(path))
    return cannotWrite(diagnostics, path, error);
  return success();
}

} // namespace shardonnx
