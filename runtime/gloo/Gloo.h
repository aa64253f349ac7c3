// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gloo behind functions of C, in a shared library of its own: Debian has Gloo
// as a shared library of C++ alone, which wants the system's libstdc++, while a
// training executable has its own inside. The library is embedded into the
// executable and loaded when a run has several machines (comm/Network).

#ifndef SHARDONNX_RUNTIME_GLOO_H
#define SHARDONNX_RUNTIME_GLOO_H

#include <cstddef>
#include <cstdint>

extern "C" {

struct ShxGloo;         // this rank's connections
struct ShxGlooTransfer; // bytes on their way

/// Each of these returns null (or false) when it fails, and writes why.
struct ShxGlooError {
  char text[512];
};

/// How the ranks learn each other's addresses: each says something once, then
/// hears what each of them said.
struct ShxGlooMeeting {
  void *user;
  void (*say)(void *user, const char *bytes, size_t count);
  size_t (*heard)(void *user, int rank, const char **bytes);
};

struct ShxGlooFunctions {
  /// Connects this rank with its peers, which do the same, and asks each for
  /// what only a rank of this run knows, which it has to say in
  /// `timeoutSeconds`; connecting may take Gloo five times as long. `address`
  /// is this machine's, `interface` the name of a network interface or empty.
  ShxGloo *(*open)(int rank, int ranks, const int *peers, size_t peerCount,
                   const char *address, const char *interface,
                   double timeoutSeconds, ShxGlooMeeting meeting,
                   ShxGlooError *error);
  void (*close)(ShxGloo *);
  /// The slot says to the two ranks which bytes these are.
  ShxGlooTransfer *(*send)(ShxGloo *, int peer, uint64_t slot, const void *from,
                           size_t bytes, ShxGlooError *error);
  ShxGlooTransfer *(*receive)(ShxGloo *, int peer, uint64_t slot, void *to,
                              size_t bytes, ShxGlooError *error);
  /// Waits as long as it takes, then forgets the transfer.
  bool (*finish)(ShxGlooTransfer *, ShxGlooError *error);
};

/// The library's one symbol.
const ShxGlooFunctions *shx_gloo();

} // extern "C"

#endif // SHARDONNX_RUNTIME_GLOO_H
