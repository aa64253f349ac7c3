// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From the command line to the end of a run: options, launcher, rendezvous,
// memory, weights, training.

#include "../checkpoint/Folder.h"
#include "../checkpoint/Restore.h"
#include "../checkpoint/Saver.h"
#include "../comm/Launch.h"
#include "../comm/Monitor.h"
#include "../comm/RankInfo.h"
#include "../comm/Socket.h"
#include "../core/Engine.h"
#include "../core/Topology.h"
#include "../support/Error.h"
#include "Adapter.h"
#include "Log.h"
#include "OutputFiles.h"
#include "TraceFile.h"
#include "Trainer.h"
#include "Weights.h"
#include "shardonnx/runtime/SameFile.h"
#include "shardonnx/runtime/StandardStreams.h"
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <random>
#include <regex>
#include <sys/prctl.h>
#include <sys/resource.h>

namespace shardonnx::rt {
namespace {

Manifest readManifest(const Program &program) {
  std::string error;
  std::optional<Manifest> manifest = parseManifest(program.manifest, error);
  if (!manifest)
    throw Error(error, kExitFailure);
  return std::move(*manifest);
}

// All ranks must have been given the same; --nproc is the launcher's.
std::string commandLine(int argc, char **argv) {
  std::string line;
  for (int i = 1; i < argc; ++i)
    line += std::string(argv[i]) + '\n';
  return line;
}

// How far the run has come.
std::optional<Restored> initialise(Engine &engine, const Options &options,
                                   Exchange &exchange,
                                   const Topology &topology) {
  bool firstRank = engine.rank() == 0;
  std::optional<Restored> restored;
  if (!options.resume.empty())
    restored = restore(options, engine, exchange, topology);
  if (!restored && options.randomInit)
    drawWeights(engine, options.seed,
                std::max(1, availableCores() / topology.ranksHere));
  else if (!restored)
    loadWeights(engine, options.model, options.seed, /*checkHash=*/firstRank);
  if (!restored && !options.adapter.empty())
    loadAdapter(engine, options.adapter, /*warns=*/firstRank);
  else if (!options.adapter.empty() && firstRank)
    printWarning("--adapter is ignored: the checkpoint has the run's adapters");
  if (!options.noDecay.empty()) {
    std::regex noDecay(options.noDecay);
    engine.setDecay([&](const std::string &name) {
      return std::regex_match(name, noDecay);
    });
  }
  return restored;
}

bool namesParameter(const Manifest &manifest, const std::string &pattern) {
  std::regex regex(pattern);
  for (const Manifest::Unit &unit : manifest.units)
    for (const Manifest::Param &param : unit.params)
      for (const std::string &name : param.names())
        if (param.trainable && std::regex_match(name, regex))
          return true;
  return false;
}

void checkOffload(const Options &o, const Manifest &manifest) {
  if (manifest.cuda() && !o.offloadDir.empty())
    failUsage("--offload-dir: a program for GPUs offloads to host memory; "
              "leave it out");
  if (manifest.cuda() && manifest.hasMatrices() && o.offload != Offload::None)
    failUsage("--offload: on a GPU --optimizer=muon keeps its state there; "
              "leave it out, or compile with --optimizer=adamw");
  if (manifest.cuda())
    return;
  bool offloads = o.offload != Offload::None;
  if (offloads && o.offloadDir.empty())
    failUsage("--offload needs --offload-dir DIR, a folder on a fast disk");
  if (!offloads && !o.offloadDir.empty())
    failUsage("--offload-dir needs --offload=optimizer or --offload=params");
}

// Options that this program, or another option, leaves without a meaning.
void warnOfIgnored(const Options &o, const Manifest &manifest) {
  bool isMuon = manifest.optimizer == Optimizer::Muon;
  auto ignored = [&](const char *option) {
    printWarning(concat(option,
                        " is ignored: the program was compiled with "
                        "--optimizer=",
                        spell(manifest.optimizer)));
  };
  if (o.momentum && manifest.optimizer != Optimizer::SGD && !isMuon)
    ignored("--momentum");
  const Options defaults;
  if (manifest.optimizer == Optimizer::SGD &&
      (o.beta1 != defaults.beta1 || o.beta2 != defaults.beta2))
    ignored("--betas");
  if (manifest.optimizer == Optimizer::SGD && o.eps != defaults.eps)
    ignored("--eps");
  if (o.muonLR && !isMuon)
    ignored("--muon-lr");
  if (o.adjustLR != AdjustLR::Original && !isMuon)
    ignored("--adjust-lr-fn");
  if (o.minLR != 0 && o.scheduleKind == Schedule::Kind::Constant)
    printWarning("--min-lr is ignored: --schedule=constant has no end to "
                 "reach");
  if (o.minLR > o.lr && o.scheduleKind != Schedule::Kind::Constant)
    printWarning(concat("--min-lr=", o.minLR, " is above --lr=", o.lr,
                        ": the learning rate rises"));
  if (o.warmup > o.steps)
    printWarning(concat("--warmup=", o.warmup, ": the run has ", o.steps,
                        " steps, and never reaches --lr=", o.lr));
  if (o.offload == Offload::Params && manifest.gathersMasters())
    printWarning(
        manifest.masterType == SHX_F32
            ? "--offload=params moves no weights: gathered in f32 they are "
              "what the ranks read; compile with --param-dtype=bf16"
            : "--offload=params moves no weights: masters of bf16 are what the "
              "ranks read; compile without --master-dtype");
  if (o.randomInit && !o.model.empty())
    printWarning("--model is ignored: --init=random reads no weights");
  if (!o.adapter.empty() && !manifest.lora)
    failUsage("--adapter: the program has no adapters; compile it with --lora");
  if (!o.noDecay.empty() && !namesParameter(manifest, o.noDecay))
    printWarning(concat("--no-decay='", o.noDecay,
                        "' matches no trainable parameter's whole name"));
}

// What tells this run's unfinished files from another's.
std::string drawTag() {
  std::random_device device;
  return concat(std::hex, device(), device());
}

// Each machine has a file of its own.
std::string flightRecordOf(const Options &options, const Group &group,
                           int rank) {
  std::string path = options.flightRecord.empty()
                         ? programName() + ".flight.json"
                         : options.flightRecord;
  if (path == "none")
    return "";
  bool several = group.machines.hosts.size() > 1;
  return several ? concat(path, ".", group.machines.hostOf(rank)) : path;
}

// The same command again, as batch systems give it, of a run that is over; what
// it asks of the folder still holds. Of another folder nothing is known.
void finishAgain(const Options &options, const Restored &restored) {
  std::string folder = std::filesystem::path(restored.folder).parent_path();
  if (options.keep > 0 && !options.save.empty() &&
      isSameFile(options.save, folder))
    // Beyond all steps: none is whole before it is looked at.
    SaveFolder(options.save, restored.state.step)
        .prune(std::numeric_limits<int64_t>::max(), options.keep);
  std::printf("done: '%s' is of the last step\n", restored.folder.c_str());
}

// One rank of a group that has met. An error here is told by the first rank
// that has one, and ends all.
int runRank(Platform &platform, const Program &program,
            const Manifest &manifest, const Options &options,
            const RankInfo &info, const Topology &topology,
            const Group &group) {
  std::vector<std::string> names;
  for (const Manifest::Unit &unit : manifest.units)
    names.push_back(unit.name);
  size_t controlBytes = Control::bytes(info.worldSize, names.size());
  Mapping memory = group.memory
                       ? Mapping::shared(group.memory.get(), 0, controlBytes,
                                         "the control block")
                       : Mapping::anonymous(controlBytes, "the control block");
  Control control(memory.data(), info.rank, info.worldSize, names);
  control.setLaunchedByUs(info.launchedByUs(), info.launcherNote);
  control.setTimeout(options.timeout);
  control.setFlightRecord(flightRecordOf(options, group, info.rank));
  Exchange exchange(control, group);
  exchange.connect(info);
  Monitor monitor(control, group, exchange);
  std::unique_ptr<TraceFile> traceFile;
  std::unique_ptr<Trace> profiled; // where there is no file of it
  // Outside the try: when this rank fails its device may be in a collective
  // that never ends, and to take the engine apart would be to wait for that.
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Saver> saver;
  try {
    if (!options.trace.empty())
      traceFile = std::make_unique<TraceFile>(
          options, manifest, info.rank, info.worldSize,
          group.localRanks(info.rank), exchange.broadcast(drawTag()));
    if (options.profile && !traceFile)
      profiled =
          std::make_unique<Trace>(info.rank, options.traceFirst,
                                  options.traceLast, manifest.units.size());
    Trace *trace = traceFile ? &traceFile->trace : profiled.get();
    if (info.rank == 0) // for all
      checkMachines(manifest, options, group.machines.machineOf);
    engine = platform.makeEngine({program, manifest, options, info, topology,
                                  group, control, exchange, trace});
    std::optional<Restored> restored =
        initialise(*engine, options, exchange, topology);
    if (restored && restored->state.step == options.steps) {
      if (info.rank == 0)
        finishAgain(options, *restored);
      if (traceFile)
        traceFile->discard();
    } else {
      if (!options.save.empty())
        saver = std::make_unique<Saver>(options, *engine, control, exchange,
                                        topology,
                                        restored ? restored->state.step : 0);
      Trainer(options, *engine, control, exchange, restored, saver.get(), trace,
              traceFile.get())
          .run();
    }
  } catch (const std::exception &e) { // no memory, too
    if (traceFile)
      traceFile->discard();
    if (info.worldSize == 1)
      throw;
    control.failNow(info.rank, concat("rank ", info.rank, ": ", describe(e)),
                    exitCodeOf(e));
  }
  saver.reset();
  engine.reset();
  control.block(info.rank).finished.store(1);
  exchange.announceEnd();
  return kExitDone;
}

int runAsRank(Platform &platform, const Program &program,
              const Manifest &manifest, const Options &options,
              const RankInfo &info, int argc, char **argv) {
  Topology topology =
      topologyOf(manifest, options, info.worldSize, info.localWorldSize);
  platform.prepare(info, argv);
  if (options.log == kStandardOutput)
    reserveStandardOutput();
  if (info.rank == 0)
    warnOfIgnored(options, manifest);
  blockTerminationSignals();
  MeetingRequest request;
  request.program = manifest.hash;
  request.options = commandLine(argc, argv);
  request.sharedBytes = platform.sharedBytes(manifest, options, topology);
  Group group;
  {
    StopOnSignals stop;
    group = meet(info, request);
  }
  return runRank(platform, program, manifest, options, info, topology, group);
}

// Each process that a launcher started would start ranks of its own, and train
// by itself. One process of a launcher (srun -n 1) may.
void refuseSecondLauncher(int nproc) {
  RankInfo info = rankFromEnvironment();
  if (info.worldSize > 1)
    failUsage("--nproc=", nproc, ": ", info.launcher, " has started ",
              info.worldSize, " processes already (", info.variables,
              " in the environment), of which each would train by itself: "
              "leave --nproc out, or start the program without ",
              info.launcher);
}

int runChecked(Platform &platform, const Program &program, int argc,
               char **argv) {
  Manifest manifest = readManifest(program);
  std::optional<Options> options = parseOptions(
      argc, argv,
      concat("Trains ", manifest.name, " (", spell(manifest.strategy),
             ", batch ", manifest.batch, " per rank, compiled by shardonnx ",
             manifest.version, ")"));
  if (!options)
    return kExitDone;
  platform.check();
  checkOffload(*options, manifest);
  checkOutputFiles(*options, manifest);
  RankInfo info;
  bool child = std::getenv(kRankVariable);
  if (child || options->nproc == 0)
    info = rankFromEnvironment();
  else
    refuseSecondLauncher(options->nproc);
  if (!child && options->nproc > 1) {
    topologyOf(manifest, *options, options->nproc, options->nproc); // checks
    return launchRanks(options->nproc, argv);
  }
  return runAsRank(platform, program, manifest, *options, info, argc, argv);
}

// All files of --data stay open: shards by the thousand are more than the limit
// that shells set, which a process may raise itself.
void raiseOpenFiles() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
}

// Every rank has the same command line: one of them speaks.
bool speaks() {
  try {
    return rankFromEnvironment().rank == 0;
  } catch (const Error &) {
    return true;
  }
}

} // namespace

int run(Platform &platform, const Program &program, int argc, char **argv) {
  occupyStandardStreams();
  setProgramName(argv[0]);
  endOnUncaught();
  // Started through /proc/self/exe, it would be called `exe` otherwise.
  ::prctl(PR_SET_NAME, programName().c_str());
  raiseOpenFiles();
  try {
    return runChecked(platform, program, argc, argv);
  } catch (const Error &e) {
    if (e.exitCode() == kExitUsage ? speaks() : e.exitCode() != kExitFollows)
      printError(e.what());
    bool launched = std::getenv(kRankVariable);
    return e.exitCode() == kExitFollows && !launched ? kExitFailure
                                                     : e.exitCode();
  } catch (const std::exception &e) { // out of memory, a thread that fails
    printError(describe(e));
    return kExitFailure;
  }
}

} // namespace shardonnx::rt
