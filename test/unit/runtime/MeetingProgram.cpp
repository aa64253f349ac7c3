// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A rank that does nothing but meet the others, on whatever machines they are,
// and exchange bytes with them. What then happens is told by the environment:
// MEETING_FAIL names a rank that fails, MEETING_PAUSE how long all others stay.

#include "comm/Exchange.h"
#include "comm/Monitor.h"
#include "shardonnx/runtime/Layout.h"
#include "support/Error.h"
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

using namespace shardonnx::rt;

namespace {

double numberIn(const char *name, double otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atof(text) : otherwise;
}

// Of sizes that take one packet, and many.
std::string textOf(int rank, int round) {
  return std::string(static_cast<size_t>((rank + 1) * (round * 40'000 + 3)),
                     static_cast<char>('a' + rank));
}

void exchangeAll(Exchange &exchange, Control &control) {
  for (int round = 0; round < 4; ++round) {
    std::vector<std::string> all =
        exchange.allGather(textOf(control.rank(), round));
    for (int r = 0; r < control.ranks(); ++r)
      if (all[static_cast<size_t>(r)] != textOf(r, round))
        fail("rank ", r, "'s bytes of round ", round, " are wrong");
    std::string word = control.rank() == 0 ? "chosen" : "ignored";
    if (exchange.broadcast(word) != "chosen")
      fail("the broadcast of round ", round, " is wrong");
    control.block(control.rank()).peakBytes.store(100 + control.rank());
    exchange.barrier(Activity::Start);
    for (int r = 0; r < control.ranks(); ++r)
      if (control.block(r).peakBytes.load() != 100 + r)
        fail("rank ", r, "'s memory is not known");
  }
}

void runRank(const RankInfo &info, const std::string &options) {
  MeetingRequest request;
  request.program = "meeting";
  request.options = options;
  request.timeoutSeconds = numberIn("MEETING_TIMEOUT", 20);
  request.machinesTimeoutSeconds = request.timeoutSeconds;
  std::vector<std::string> units = {"unit"};
  size_t bytes = Control::bytes(info.worldSize, units.size());
  request.sharedBytes = shardonnx::alignTo(static_cast<int64_t>(bytes),
                                           static_cast<int64_t>(pageBytes()));
  Group group = meet(info, request);
  Mapping memory =
      group.memory ? Mapping::shared(group.memory.get(), 0, bytes, "control")
                   : Mapping::anonymous(bytes, "control");
  Control control(memory.data(), info.rank, info.worldSize, units);
  Exchange exchange(control, group);
  exchange.connect(info);
  Monitor monitor(control, group, exchange);
  exchangeAll(exchange, control);
  std::printf("rank %d of %d on machine %d of %zu\n", info.rank, info.worldSize,
              group.machines.machineOf[static_cast<size_t>(info.rank)],
              group.machines.hosts.size());
  std::fflush(stdout);
  if (numberIn("MEETING_FAIL", -1) == info.rank)
    control.failNow(info.rank, concat("rank ", info.rank, ": broken"),
                    kExitFailure);
  ::usleep(static_cast<useconds_t>(numberIn("MEETING_PAUSE", 0) * 1e6));
  control.barrier(Activity::End);
  control.block(info.rank).finished.store(1);
  exchange.announceEnd();
}

} // namespace

int main(int argc, char **argv) {
  setProgramName(argv[0]);
  blockTerminationSignals();
  try {
    runRank(rankFromEnvironment(), argc > 1 ? argv[1] : "");
    return 0;
  } catch (const Error &e) {
    if (e.exitCode() != kExitFollows)
      printError(e.what());
    return e.exitCode();
  }
}
