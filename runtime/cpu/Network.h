// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Slices between the machines of a run, by Gloo over TCP. Every call blocks
// until its bytes are there, so each queue of the communicator has a thread of
// its own; slots tell the bytes of one from those of another, whatever order
// the ranks come to them in.

#ifndef SHARDONNX_RUNTIME_CPU_NETWORK_H
#define SHARDONNX_RUNTIME_CPU_NETWORK_H

#include "../comm/Exchange.h"
#include "../comm/Route.h"
#include "../gloo/Gloo.h"
#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Manifest.h"
#include <functional>
#include <vector>

namespace shardonnx::rt {

class Network {
public:
  /// Connects this rank with `peers`; all ranks of the run call it.
  Network(Control &control, Exchange &exchange, const Group &group,
          const std::vector<int> &peers);
  ~Network() = default; // the process ends with its connections
  Network(const Network &) = delete;
  Network &operator=(const Network &) = delete;

  enum Collective : uint32_t { Gather, GatherFrozen, Reduce, Spread, Replicas };
  /// What tells the bytes of one call from all others between two ranks.
  struct Slot {
    Collective collective;
    uint32_t unit;
    uint64_t turn; // how often it was made
    uint64_t pack(uint64_t piece) const;
  };

  /// A slice of a buffer, by the place of its owner in the route.
  using SliceAt = std::function<uint8_t *(size_t member)>;
  using BytesOf = std::function<size_t(size_t member)>;

  /// Each slice goes to all machines: this rank's to its carriers, and those
  /// that it carries come here.
  void gather(const Route &route, const Slot &slot, const SliceAt &sliceAt,
              const BytesOf &bytesOf);

  /// out (+)= this rank's part of the sum over all members of their gradients.
  /// `sources`: whole arrays of `dtype` of the machine's members; `partOf`:
  /// each member's interval of them. The machines' sums travel in `dtype`.
  struct Reduction {
    std::vector<const uint8_t *> sources;
    std::function<Interval(size_t member)> partOf;
    ShxDType dtype = SHX_F32;
    float *out = nullptr;
    bool accumulate = false;
  };
  void reduceScatter(const Route &route, const Slot &slot,
                     const Reduction &reduction);

  /// data = the sum over `members` of theirs, the same bits on each.
  void allReduce(const std::vector<int> &members, const Slot &slot, float *data,
                 int64_t count);

  /// What a rank needs beside its buffers, at most.
  static int64_t stagingBytes(const Routes &routes, const Manifest &manifest);

private:
  class Transfers;
  [[noreturn]] void broken(int peer, const ShxGlooError &error);

  Control &control;
  const Group &group;
  const ShxGlooFunctions &functions;
  ShxGloo *gloo = nullptr;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_NETWORK_H
