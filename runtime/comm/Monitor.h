// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A thread that only watches: connections to the other ranks (what they send
// goes to the exchange, one that closes is a death), SIGINT and SIGTERM, and
// the word by which another rank ends the run while this one computes.

#ifndef SHARDONNX_RUNTIME_MONITOR_H
#define SHARDONNX_RUNTIME_MONITOR_H

#include "Control.h"
#include "Exchange.h"
#include <thread>

namespace shardonnx::rt {

/// Blocks the signals in this and every later thread; before any thread starts.
void blockTerminationSignals();
/// Under nohup a hangup is not for us; a blocked signal would come through.
bool hangupIsIgnored();

/// What a launcher of ours says with SIGTERM (sigqueue): by which signal it was
/// itself asked to end the run after a step, or that the rank ends at once.
constexpr int kEndAtOnce = 0;

/// A first SIGINT or SIGTERM asks for an end after the step, a second one for
/// an end at once. One that comes through a process and its group (a terminal,
/// timeout(1)) comes several times.
constexpr double kSecondsOfOneRequest = 0.5;

const char *signalName(int signal);

class Monitor {
public:
  Monitor(Control &control, const Group &group, Exchange &exchange);
  ~Monitor(); // the run is over
  Monitor(const Monitor &) = delete;
  Monitor &operator=(const Monitor &) = delete;

private:
  void watch();
  void readSignal();
  bool asksToStop(int signal, bool queued, int value);
  bool readPeer(size_t peer); // reads it
  void localClosed(const Peer &peer);
  void remoteClosed(const Peer &peer, bool machineLost);
  /// Once in a while: who is stopped, and whether anybody can still go on.
  void checkPeers();
  void checkBeats(size_t peer, double seconds);
  void localSilent(const Peer &peer, double seconds);
  void remoteSilent(const Peer &peer, double seconds);
  void watchForDeadlock(double seconds);
  bool shouldReport(const Peer &remote, bool machineLost) const;

  Control &control;
  const Group &group;
  Exchange &exchange;
  FileDescriptor signals, stop;
  struct Life {
    uint64_t beats = 0;
    double silent = 0; // seconds
    bool ended = false;
  };
  std::vector<Life> lives; // [peer]
  double lastLook, nextBeats = 0, asleep = 0;
  double interrupted = -1; // when SIGINT came first; negative: never
  uint32_t changes = 0;
  std::thread thread;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_MONITOR_H
