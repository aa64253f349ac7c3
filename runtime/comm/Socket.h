// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// TCP as the rendezvous between machines needs it: connecting with a deadline,
// listening on both families, and whole reads and writes that end in time
// whatever the other side does. A deadline is a time of monotonicSeconds().

#ifndef SHARDONNX_RUNTIME_SOCKET_H
#define SHARDONNX_RUNTIME_SOCKET_H

#include "../support/Mapping.h"
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shardonnx::rt {

struct Endpoint {
  std::string host; // a name or an address, IPv6 without brackets
  uint16_t port = 0;
};
std::string describe(const Endpoint &endpoint);

/// Tries every address of the host again and again until one answers; an error
/// says what was the matter last.
FileDescriptor connectTo(const Endpoint &endpoint, double deadline);

/// Listens at `endpoint.port` (0: any free one, the same everywhere), at the
/// addresses of the host which this machine has. Where it has none of them (an
/// address of a router before it), or a name stands for a loopback address here
/// (as a machine's own does in Debian's /etc/hosts), at every address.
std::vector<FileDescriptor> listenAt(const Endpoint &endpoint);

uint16_t portOf(int socket);
/// The other side of a connection, `ADDRESS:PORT`.
std::string peerAddress(int connection);
/// This side's address of a connection.
std::string localAddress(int connection);
/// The same; empty when it is a loopback one, which
/// means nothing to other machines.
std::string addressForOthers(int connection);

/// A machine that is gone shows within 20 s, as an error of the connection.
void enableKeepAlive(int connection);

/// All of it before the deadline, or false: closed, failed or late.
bool sendAll(int fd, const void *data, size_t bytes, double deadline);
bool receiveAll(int fd, void *data, size_t bytes, double deadline);
bool waitReadable(int fd, double deadline);

/// While one lives, what this thread waits for ends as an error when SIGINT or
/// SIGTERM, which are blocked, have come.
class StopOnSignals {
public:
  StopOnSignals();
  ~StopOnSignals();
  StopOnSignals(const StopOnSignals &) = delete;
  StopOnSignals &operator=(const StopOnSignals &) = delete;
};

/// The error, if it is due.
void failIfStopped();

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_SOCKET_H
