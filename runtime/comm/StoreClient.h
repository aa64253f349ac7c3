// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A client of the key-value store that torchrun's agent keeps at
// MASTER_ADDR:MASTER_PORT (PyTorch's TCPStore, 2.1 and later): rank 0 leaves
// there where it listens, the other machines read it. Numbers travel in the
// order of bytes of the machine, which is little-endian here and in practice
// there.

#ifndef SHARDONNX_RUNTIME_STORECLIENT_H
#define SHARDONNX_RUNTIME_STORECLIENT_H

#include "Socket.h"
#include <string>

namespace shardonnx::rt {

class StoreClient {
public:
  StoreClient(const Endpoint &endpoint, double deadline);

  void set(const std::string &key, const std::string &value);
  /// Waits until somebody has set the key.
  std::string get(const std::string &key);
  /// This machine's address as the store sees it; empty when it is loopback.
  std::string address() const { return addressForOthers(connection.get()); }

private:
  void send(const std::string &message);
  void receive(void *data, size_t bytes);

  Endpoint endpoint;
  double deadline;
  FileDescriptor connection;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_STORECLIENT_H
