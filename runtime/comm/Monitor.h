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

// Blocks the signals in this and every later thread; before any thread starts.
void blockTerminationSignals();
// Under nohup a hangup is not for us; a blocked signal would come through.
bool hangupIsIgnored();

class Monitor {
public:
  Monitor(Control &control, const Group &group, Exchange &exchange);
  ~Monitor(); // the run is over
  Monitor(const Monitor &) = delete;
  Monitor &operator=(const Monitor &) = delete;

private:
  void watch();
  void readSignal();
  bool stillOpen(size_t peer); // reads it
  void localClosed(const Peer &peer);
  void remoteClosed(const Peer &peer, bool machineLost);

  Control &control;
  const Group &group;
  Exchange &exchange;
  FileDescriptor signals, stop;
  std::thread thread;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_MONITOR_H
