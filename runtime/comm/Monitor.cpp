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

Monitor::Monitor(Control &control, const Group &group)
    : control(control), group(group) {
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

void Monitor::peerClosed(const Peer &peer) {
  RankBlock &block = control.block(peer.rank);
  if (block.finished.load())
    return;
  control.failNow(peer.rank,
                  concat("rank ", peer.rank, " (process ", block.pid.load(),
                         ") died: it was killed or crashed; see its own "
                         "messages and the system's log"),
                  kExitFailure, kExitFollows);
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
      if (fds[i].revents) {
        peerClosed(group.peers[i - 2]);
        fds[i].fd = -1; // it ended well
      }
  }
}

} // namespace shardonnx::rt
