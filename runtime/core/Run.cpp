// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From the command line to the end of a run: options, launcher, rendezvous,
// memory, weights, training.

#include "../comm/Launch.h"
#include "../comm/Monitor.h"
#include "../comm/RankInfo.h"
#include "../comm/Rendezvous.h"
#include "Error.h"
#include "Options.h"
#include "Program.h"
#include "Trainer.h"
#include "Weights.h"
#include <cstdlib>
#include <malloc.h>
#include <regex>
#include <sys/prctl.h>

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

double hangSeconds() {
  constexpr double kDefault = 600;
  const char *text = std::getenv("SHARDONNX_TIMEOUT");
  if (!text)
    return kDefault;
  char *end = nullptr;
  double seconds = std::strtod(text, &end);
  if (!*text || *end || !(seconds > 0))
    failUsage("SHARDONNX_TIMEOUT=", text, " is not a number of seconds");
  return seconds;
}

void initialise(State &state, const Options &options, bool firstRank) {
  if (options.randomInit)
    drawWeights(state, options.seed);
  else
    loadWeights(state, options.model, /*checkHash=*/firstRank);
  if (!options.noDecay.empty()) {
    std::regex noDecay(options.noDecay);
    state.setDecay([&](const std::string &name) {
      return std::regex_match(name, noDecay);
    });
  }
}

bool namesParameter(const Manifest &manifest, const std::string &pattern) {
  std::regex regex(pattern);
  for (const Manifest::Unit &unit : manifest.units)
    for (const Manifest::Param &param : unit.params)
      if (param.trainable && std::regex_match(param.name, regex))
        return true;
  return false;
}

// Options that this program, or another option, leaves without a meaning.
void warnOfIgnored(const Options &o, const Manifest &manifest) {
  if (o.momentum != 0 && manifest.optimizer != "sgd")
    printWarning(concat("--momentum is ignored: the program was compiled with "
                        "--optimizer=",
                        manifest.optimizer));
  if (o.minLR != 0 && o.scheduleKind == Schedule::Kind::Constant)
    printWarning("--min-lr is ignored: --schedule=constant has no end to "
                 "reach");
  if (o.randomInit && !o.model.empty())
    printWarning("--model is ignored: --init=random reads no weights");
  if (!o.noDecay.empty() && !namesParameter(manifest, o.noDecay))
    printWarning(concat("--no-decay='", o.noDecay,
                        "' matches no trainable parameter's whole name"));
}

// One rank of a group that has met. An error here is told by the first rank
// that has one, and ends all.
int runRank(const Program &program, const Manifest &manifest,
            const Options &options, const RankInfo &info, const Group &group) {
  MemoryOptions memory;
  memory.debug = options.debugMemory;
  memory.accumulate = options.accumulate;
  State state(manifest, info.rank, info.worldSize,
              group.memory ? group.memory.get() : -1, memory);
  std::vector<std::string> names;
  for (const Manifest::Unit &unit : manifest.units)
    names.push_back(unit.name);
  Control control(state.control(), info.rank, info.worldSize, names);
  control.setLaunchedByUs(info.launchedByUs());
  control.setTimeout(hangSeconds());
  Monitor monitor(control, group);
  try {
    initialise(state, options, info.rank == 0);
    Trainer(program, options, state, control, threadsPerRank(info)).run();
  } catch (const Error &e) {
    if (info.worldSize == 1)
      throw;
    control.failNow(info.rank, concat("rank ", info.rank, ": ", e.what()),
                    e.exitCode());
  }
  control.block(info.rank).finished.store(1);
  return kExitDone;
}

int runAsRank(const Program &program, const Manifest &manifest,
              const Options &options, const RankInfo &info, int argc,
              char **argv) {
  undoDefaultBinding(info);
  ensureThreadEnvironment(info, argv);
  if (info.worldSize > availableCores() && info.rank == 0)
    printWarning(concat(info.worldSize, " ranks share ", availableCores(),
                        " cores: one thread each, and slow"));
  if (info.rank == 0)
    warnOfIgnored(options, manifest);
  ::mallopt(M_ARENA_MAX, 1); // the threads allocate next to nothing
  blockTerminationSignals();
  MeetingRequest request;
  request.program = manifest.hash;
  request.options = commandLine(argc, argv);
  MemoryOptions memory;
  memory.debug = options.debugMemory;
  memory.accumulate = options.accumulate;
  request.sharedBytes = planShared(manifest, info.worldSize, memory).total;
  Group group = meet(info, request);
  return runRank(program, manifest, options, info, group);
}

int runChecked(const Program &program, int argc, char **argv) {
  Manifest manifest = readManifest(program);
  std::optional<Options> options = parseOptions(
      argc, argv,
      concat("Trains ", manifest.name, " (", manifest.strategy, ", batch ",
             manifest.batch, " per rank, compiled by shardonnx ",
             manifest.version, ")"));
  if (!options)
    return kExitDone;
  RankInfo info;
  bool child = std::getenv(kRankVariable);
  if (child || options->nproc == 0)
    info = rankFromEnvironment();
  else if (options->nproc > 1)
    return launchRanks(options->nproc, argv);
  return runAsRank(program, manifest, *options, info, argc, argv);
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

int run(const Program &program, int argc, char **argv) {
  setProgramName(argv[0]);
  // Started through /proc/self/exe, it would be called `exe` otherwise.
  ::prctl(PR_SET_NAME, programName().c_str());
  try {
    return runChecked(program, argc, argv);
  } catch (const Error &e) {
    if (e.exitCode() == kExitUsage ? speaks() : e.exitCode() != kExitFollows)
      printError(e.what());
    bool launched = std::getenv(kRankVariable);
    return e.exitCode() == kExitFollows && !launched ? kExitFailure
                                                     : e.exitCode();
  } catch (const std::exception &e) { // out of memory, a thread that fails
    printError(e.what());
    return kExitFailure;
  }
}

} // namespace shardonnx::rt
