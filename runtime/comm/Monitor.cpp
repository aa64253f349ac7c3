// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One poll over everything that can end a run from outside.

#include "Monitor.h"
#include "../core/Error.h"
#include <csignal>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace shardonnx::rt {
namespace {

constexpr int kPollMilliseconds = 200;

sigset_t terminationSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  if (!hangupIsIgnored())
    sigaddset(&set, SIGHUP);
  return set;
}

} // namespace

bool hangupIsIgnored() {
  struct sigaction action{};
  ::sigaction(SIGHUP, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

void blockTerminationSignals() {
  sigset_t set = terminationSignals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN); // a closed pipe is a failed write
}

Monitor::Monitor(Control &control, const Group &group, Exchange &exchange)
    : control(control), group(group), exchange(exchange) {
  sigset_t set = terminationSignals();
  signals = FileDescriptor(::signalfd(-1, &set, SFD_CLOEXEC));
  stop = FileDescriptor(::eventfd(0, EFD_CLOEXEC));
  if (!signals || !stop)
    fail("cannot watch the other ranks: ", systemError());
  thread = std::thread([this] { watch(); });
}

Monitor::~Monitor() {
  uint64_t one = 1;
  (void)!::write(stop.get(), &one, sizeof(one));
  thread.join();
}

void Monitor::readSignal() {
  signalfd_siginfo info{};
  if (::read(signals.get(), &info, sizeof(info)) !=
      static_cast<ssize_t>(sizeof(info)))
    return;
  const char *name = info.ssi_signo == SIGINT    ? "SIGINT"
                     : info.ssi_signo == SIGTERM ? "SIGTERM"
                                                 : "SIGHUP";
  // The launcher, which may have got the same signal, speaks for its ranks.
  control.failNow(control.rank(), concat("stopped by ", name), kExitFailure,
                  kExitSignalled + static_cast<int>(info.ssi_signo));
}

bool Monitor::stillOpen(size_t index) {
  const Peer &peer = group.peers[index];
  int rank = peer.rank;
  Exchange::News news = exchange.read(index, rank);
  switch (news) {
  case Exchange::News::Nothing:
    return true;
  case Exchange::News::Failed:
    control.followRemote(rank);
  case Exchange::News::Garbled:
    control.failNow(control.rank(),
                    concat("rank ", peer.rank,
                           " sent bytes that are none of "
                           "this program's messages"),
                    kExitFailure);
  case Exchange::News::Ended:
    return false;
  case Exchange::News::Closed:
  case Exchange::News::Lost:
    break;
  }
  if (peer.remote)
    remoteClosed(peer, news == Exchange::News::Lost);
  else
    localClosed(peer);
  return false;
}

void Monitor::localClosed(const Peer &peer) {
  RankBlock &block = control.block(peer.rank);
  if (block.finished.load())
    return;
  // Rank 0 sees the death of another machine's leader, too, and tells it.
  bool told =
      peer.rank != 0 && group.localRanks(peer.rank).front() == peer.rank;
  if (told)
    control.followRemote(peer.rank);
  control.failNow(peer.rank,
                  concat("rank ", peer.rank, " (process ", block.pid.load(),
                         ") died: it was killed or crashed; see its own "
                         "messages and the system's log"),
                  kExitFailure, kExitFollows);
}

// One rank speaks. Of rank 0: its machine's other ranks; when there are none,
// or the machine is gone, the first rank of the next machine.
void Monitor::remoteClosed(const Peer &peer, bool machineLost) {
  const std::string &host = group.machines.hostOf(peer.rank);
  bool others = group.localRanks(peer.rank).size() > 1;
  bool second = group.machines.machineOf[control.rank()] == 1;
  if (control.rank() != 0 && (!second || (others && !machineLost)))
    control.followRemote(peer.rank);
  control.failNow(peer.rank,
                  machineLost
                      ? concat("host ", host, " of rank ", peer.rank,
                               " is out of reach: it or its network failed")
                      : concat("rank ", peer.rank, " (host ", host,
                               ") died: it was killed or crashed; see its own "
                               "messages and that host's log"),
                  kExitFailure);
}

void Monitor::watch() {
  std::vector<pollfd> fds;
  fds.push_back({stop.get(), POLLIN, 0});
  fds.push_back({signals.get(), POLLIN, 0});
  for (const Peer &peer : group.peers)
    fds.push_back({peer.connection.get(), POLLIN, 0});
  while (true) {
    ::poll(fds.data(), fds.size(), kPollMilliseconds);
    if (fds[0].revents)
      return;
    if (control.failed())
      control.follow();
    if (fds[1].revents & POLLIN)
      readSignal();
    for (size_t i = 2; i < fds.size(); ++i)
      if (fds[i].revents && !stillOpen(i - 2))
        fds[i].fd = -1; // it ended well
  }
}

} // namespace shardonnx::rt
