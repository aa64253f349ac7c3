// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The documents of a microbatch as cuDNN wants them, as sequences of a ragged
// batch: how long each is, and where it begins in every tensor. The host, which
// has the first keys before the device does, writes them behind the inputs, and
// says whether there are more than cuDNN's plans are made for.

#ifndef SHARDONNX_RUNTIME_CUDA_DOCUMENTS_H
#define SHARDONNX_RUNTIME_CUDA_DOCUMENTS_H

#include "shardonnx/runtime/DevicePlan.h"
#include <vector>

namespace shardonnx::rt::cuda {

class Documents {
public:
  /// `device`: documentTableBytes(most) of it, which live as long as this.
  /// Samples are of `length` tokens, of which `tokens` are in a microbatch.
  Documents(int64_t most, int64_t tokens, int64_t length, uint8_t *device);

  /// On the device, [most]: zeros behind the last document.
  const int32_t *lengths() const { return column(0); }
  /// On the device, [most + 1]: each document's first element in a tensor whose
  /// tokens are so many elements apart, and its end. Null: there is no room for
  /// another distance. What is asked for before a microbatch is filled in is
  /// there with it.
  const int32_t *offsets(int64_t stride);

  /// On the host: a microbatch's tables from its first keys.
  void fill(const int32_t *firstKeys, uint8_t *tables);
  /// Of the microbatch that was filled in last.
  int64_t count() const { return documents; }
  /// Whether cuDNN may take them; else their lengths are all zero.
  bool fit() const { return documents <= most; }
  int64_t limit() const { return most; }

private:
  const int32_t *column(int64_t index) const {
    return device + index * documentColumn(most);
  }

  const int64_t most, tokens, length;
  const int32_t *const device;
  std::vector<int64_t> strides;
  int64_t documents = 0;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_DOCUMENTS_H
