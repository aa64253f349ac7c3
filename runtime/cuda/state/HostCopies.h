// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Activations that wait for backward in pinned host memory
// (--offload=activations): one stream takes them there, another one brings them
// back, beside the compute stream.

#ifndef SHARDONNX_RUNTIME_CUDA_HOSTCOPIES_H
#define SHARDONNX_RUNTIME_CUDA_HOSTCOPIES_H

#include "../launch/Context.h"
#include <vector>

namespace shardonnx::rt::cuda {

/// The calls of HostABI.h. What is on its streams is awaited within the
/// function that put it there.
class HostCopies {
public:
  HostCopies(Context &context, int64_t bytes);

  void offloadStart(size_t copy, const void *buffer, int64_t hostOffset,
                    int64_t bytes);
  void offloadWait(size_t copy);
  void reloadStart(size_t copy, void *buffer, int64_t hostOffset,
                   int64_t bytes);
  void reloadWait(size_t copy);

  std::vector<CUstream> streams() const { return {away, back}; }

private:
  struct Copy {
    Event awayBegin, awayEnd, backBegin, backEnd;
  };
  /// Made while a function is prepared, since nothing may be made while one is
  /// captured. A function has done with them when the next one begins.
  Copy &at(size_t copy);

  Context &context;
  PinnedMemory memory;
  Stream away, back;
  std::vector<Copy> copies;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_HOSTCOPIES_H
