// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A thread that only watches: connections to the other ranks (one that closes
// is a death), SIGINT and SIGTERM, and the word by which another rank ends the
// run while this one computes.

#ifndef SHARDONNX_RUNTIME_MONITOR_H
#define SHARDONNX_RUNTIME_MONITOR_H

#include "Control.h"
#include "Rendezvous.h"
#include <thread>

namespace shardonnx::rt {

// Blocks the signals in this and every later thread; before any thread starts.
void blockTerminationSignals();
// Under nohup a hangup is not for us; a blocked signal would come through.
bool hangupIsIgnored();

class Monitor {
public:
  Monitor(Control &control, const Group &group);
  ~Monitor(); // the run is over
  Monitor(const Monitor &) = delete;
  Monitor &operator=(const Monitor &) = delete;

private:
  void watch();
  void readSignal();
  void peerClosed(const Peer &peer);

  Control &control;
  const Group &group;
  FileDescriptor signals, stop;
  std::thread thread;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_MONITOR_H
