// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `shardonnx inspect`: a model, as it would be compiled, or an executable.

#include "CheckOptions.h"
#include "FlightLog.h"
#include "InspectElf.h"
#include "InspectReport.h"
#include "OutputCheck.h"
#include "ReportPage.h"
#include "Trial.h"
#include "shardonnx/Driver/Compilation.h"
#include "shardonnx/Driver/Plan.h"
#include "shardonnx/runtime/AskedThreads.h"
#include "shardonnx/runtime/Printable.h"

#include "llvm/Support/Threading.h"

#include <set>

using namespace mlir;

namespace shardonnx {

int threadsPerRank(int64_t ranks) {
  if (int threads = askedThreads().threads)
    return threads;
  unsigned cores = llvm::hardware_concurrency().compute_thread_count();
  return std::max(1, static_cast<int>(cores / ranks));
}

namespace {

FailureOr<std::string> manifestOfModel(CompileOptions options,
                                       Diagnostics &diagnostics) {
  if (failed(takePlannedStrategy(options, diagnostics)))
    return failure();
  Compilation compilation(options, diagnostics);
  if (failed(compilation.runTo(Level::Memory)))
    return failure();
  compilation.noteGradientsUntold();
  return compilation.manifest();
}

FailureOr<Manifest> readManifest(const std::string &path,
                                 FailureOr<std::string> text,
                                 Diagnostics &diagnostics) {
  if (failed(text))
    return failure();
  std::string error;
  std::optional<Manifest> manifest = parseManifest(*text, error);
  if (!manifest)
    return diagnostics.error("'" + path + "': " + error);
  return std::move(*manifest);
}

FailureOr<Topology> topologyOf(const Manifest &manifest,
                               const InspectOptions &options,
                               Diagnostics &diagnostics) {
  std::string asked = "--replicas=" + std::to_string(options.replicas);
  if (options.replicas > 1 && !manifest.hybrid())
    return diagnostics.usageError(asked +
                                  ": --strategy=" + spell(manifest.strategy) +
                                  " has one replica, hybrid_shard and "
                                  "hybrid_shard_zero2 have several");
  // Without a number, as few ranks as the mesh has.
  const Mesh &mesh = manifest.mesh;
  int64_t replicas = std::max(options.replicas, mesh.size(MeshAxis::Replicate));
  int64_t least = mesh.together() * replicas *
                  std::max<int64_t>(mesh.size(MeshAxis::Shard), 1);
  int64_t ranks = options.nproc == 1 && mesh.given() ? least : options.nproc;
  if (mesh.given() && ranks % least != 0)
    return diagnostics.usageError(
        "--nproc=" + std::to_string(ranks) + ": --mesh=" + mesh.text() +
        " needs a multiple of " + std::to_string(least) + " ranks");
  if (ranks % replicas != 0)
    return diagnostics.usageError(asked + " does not divide the " +
                                  std::to_string(ranks) + " ranks of --nproc");
  return Topology(static_cast<int>(ranks), static_cast<int>(replicas),
                  /*ranksHere=*/0, manifest.sliceAlignment(),
                  static_cast<int>(mesh.tensor()),
                  static_cast<int>(mesh.context()));
}

// A log does not name its program, but how much a step of it took.
LogicalResult readMeasuredMemory(const Manifest &manifest,
                                 const InspectOptions &options,
                                 InspectView &view, Diagnostics &diagnostics) {
  FailureOr<RunMemory> run = readRunLog(options.log, diagnostics);
  if (failed(run))
    return failure();
  int64_t tokens = manifest.tokensPerMicrobatch() *
                   (view.topology.ranks / view.topology.together()) *
                   options.accumulate;
  if (run->tokens > 0 && run->tokens != tokens)
    diagnostics.warning("--log: '" + options.log +
                        "' is of another program, or of other --nproc or "
                        "--accumulate: a step of it took " +
                        Twine(run->tokens) + " tokens, one of this takes " +
                        Twine(tokens));
  view.run = std::move(*run);
  return success();
}

LogicalResult readMeasuredTimes(const Manifest &manifest,
                                const InspectOptions &options,
                                InspectView &view, Diagnostics &diagnostics) {
  FailureOr<MeasuredExposure> trace = readTrace(options.trace, diagnostics);
  if (failed(trace))
    return failure();
  std::set<std::string> here, there;
  for (const Manifest::Unit &unit : manifest.units)
    here.insert(unit.name);
  for (const auto &unit : trace->units)
    if (unit.first() != kNoUnitName)
      there.insert(unit.first().str());
  if (here != there)
    return diagnostics.error(
        "--trace: '" + options.trace + "' is of another program ('" +
        trace->program + "'), whose units are not those of '" +
        options.compile.model +
        "'; give a trace of this one, or inspect the other");
  view.trace = std::move(*trace);
  return success();
}

// What was measured of a run, where its files are given.
LogicalResult readMeasured(const Manifest &manifest,
                           const InspectOptions &options, InspectView &view,
                           Diagnostics &diagnostics) {
  if (!options.log.empty() &&
      failed(readMeasuredMemory(manifest, options, view, diagnostics)))
    return failure();
  return success(
      options.trace.empty() ||
      succeeded(readMeasuredTimes(manifest, options, view, diagnostics)));
}

// A CPU is one of as many threads as the ranks of this machine would take.
FailureOr<Device> deviceOf(const Manifest &manifest,
                           const InspectOptions &options, int threads,
                           Diagnostics &diagnostics) {
  if (options.device.empty())
    return deviceOfProgram(manifest.cuda(), manifest.arch, threads);
  FailureOr<Device> device = givenDevice(options.device, diagnostics);
  if (failed(device) || device->target != TargetKind::CPU)
    return device;
  return withThreads(std::move(*device), threads, options.nproc);
}

// Names come from the model's file.
void printText(const Manifest &manifest, const InspectView &view) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  printInspectText(manifest, view, stream);
  llvm::outs() << printable(text, /*keepLines=*/true);
}

// Of both kinds of program; `manifest` knows where its weights lie.
std::vector<InputName> inputsOf(const InspectOptions &options,
                                const Manifest &manifest) {
  std::vector<InputName> inputs = inputsOf(options.compile);
  if (isElf(options.compile.model))
    inputs.front().what = "the executable itself";
  inputs.push_back({"the model", manifest.modelPath});
  inputs.push_back({"the file that --log names", options.log});
  inputs.push_back({"the file that --trace names", options.trace});
  inputs.push_back({"the file that --device names", options.device});
  std::set<std::string> files;
  for (const Manifest::Unit &unit : manifest.units)
    for (const Manifest::Param &param : unit.params)
      if (param.source)
        files.insert(param.source->file);
  addWeightFiles(manifest.modelPath, files, inputs);
  return inputs;
}

// The page says the same as --json, in a file of its own.
LogicalResult writePage(const Manifest &manifest, InspectView view,
                        const std::string &path, Diagnostics &diagnostics) {
  view.bounded = true;
  std::string data;
  llvm::raw_string_ostream stream(data);
  printInspectJson(manifest, view, stream);
  return writeReportPage(data, path, diagnostics);
}

} // namespace

int finishOutput(Diagnostics &diagnostics) {
  llvm::outs().flush();
  if (!llvm::outs().has_error())
    return kExitDone;
  std::error_code error = llvm::outs().error();
  llvm::outs().clear_error();
  (void)diagnostics.error("cannot write to standard output: " +
                          error.message());
  return kExitInput;
}

FailureOr<Inspected> inspectProgram(const InspectOptions &options,
                                    Diagnostics &diagnostics) {
  const std::string &path = options.compile.model;
  if (failed(checkOptions(options.compile, diagnostics)))
    return failure();
  bool isExecutable = isElf(path);
  FailureOr<Manifest> manifest =
      readManifest(path,
                   isExecutable ? readManifestSection(path, diagnostics)
                                : manifestOfModel(options.compile, diagnostics),
                   diagnostics);
  if (failed(manifest))
    return failure();
  if (isExecutable && options.compileOptionsGiven)
    diagnostics.warning("'" + path +
                        "' is an executable: it shows what it was compiled "
                        "with, and the compile options here change nothing");
  InspectView view;
  FailureOr<Topology> topology = topologyOf(*manifest, options, diagnostics);
  if (failed(topology))
    return failure();
  view.topology = *topology;
  view.accumulate = options.accumulate;
  view.threadsPerRank = threadsPerRank(options.nproc);
  view.offload = options.offload;
  view.parameters = options.parameters;
  view.traffic = options.traffic;
  FailureOr<Device> device =
      deviceOf(*manifest, options, view.threadsPerRank, diagnostics);
  if (failed(device))
    return failure();
  view.device = std::move(*device);
  if (failed(readMeasured(*manifest, options, view, diagnostics)))
    return failure();
  return Inspected{std::move(*manifest), std::move(view)};
}

int runInspect(const InspectOptions &options) {
  const std::string &path = options.compile.model;
  Diagnostics diagnostics;
  if (!options.html.empty() && isFlightRecord(path)) {
    (void)diagnostics.error("--html: '" + path +
                            "' is a flight record; give the model or the "
                            "executable, or leave --html out");
    return kExitUsage;
  }
  if (options.html == "-" && options.json) {
    (void)diagnostics.error("--html=- and --json would both be written to "
                            "standard output; give --html a file");
    return kExitUsage;
  }
  if (failed(checkOptions(options.compile, diagnostics)))
    return kExitUsage;
  if (isFlightRecord(path))
    return failed(
               printFlightRecord(path, options.json, llvm::outs(), diagnostics))
               ? static_cast<int>(kExitInput)
               : finishOutput(diagnostics);
  FailureOr<Inspected> found = inspectProgram(options, diagnostics);
  if (failed(found))
    return exitCodeOf(diagnostics);
  const auto &[manifest, view] = *found;
  if (!options.html.empty() &&
      failed(checkIsNoInput("--html", options.html, inputsOf(options, manifest),
                            diagnostics)))
    return exitCodeOf(diagnostics);
  if (!options.html.empty() &&
      failed(writePage(manifest, view, options.html, diagnostics)))
    return exitCodeOf(diagnostics);
  if (options.json)
    printInspectJson(manifest, view, llvm::outs());
  else if (options.html.empty())
    printText(manifest, view);
  return finishOutput(diagnostics);
}

} // namespace shardonnx
