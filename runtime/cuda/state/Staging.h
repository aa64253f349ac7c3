// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The optimizer over slices that lie in host memory (--offload): parts of them
// come to the device on one stream, are updated on the compute stream, and go
// back on a third, so that copies in both directions run beside the kernels.

#ifndef SHARDONNX_RUNTIME_CUDA_STAGING_H
#define SHARDONNX_RUNTIME_CUDA_STAGING_H

#include "../launch/Context.h"
#include "State.h"
#include <vector>

namespace shardonnx::rt::cuda {

class Staging {
public:
  /// context.state is there; something of it lies in host memory.
  explicit Staging(Context &context);

  /// Around the function that updates: nothing of it is left on the streams.
  void begin();
  void end();
  void update(size_t unit, const ShxDeviceKernel &kernel);
  /// Makes `stream` wait for what this function has stored so far: parameters
  /// that a gather is about to read.
  void wait(CUstream stream) const;

  /// Of an update, in both directions.
  int64_t bytes() const;
  std::vector<CUstream> streams() const { return {loads, stores}; }

private:
  /// A point of a stream, which counts until the function ends.
  struct Point {
    Event event;
    bool recorded = false;
  };
  struct Part {
    uint8_t *master = nullptr;
    uint8_t *moments[2] = {};
    float *scales[2] = {};
    uint8_t *cast = nullptr; // of the masters, in param_dtype
    Point loaded, computed, stored;
  };
  /// Calls copy(of the part, of the slice, bytes) with all that goes both ways.
  template <typename Copy>
  void forCopied(Part &part, const UnitState &u, const Interval &interval,
                 Copy copy) const;
  void record(Point &point, CUstream stream) const;
  void wait(const Point &point, CUstream stream) const;
  void load(Part &part, const UnitState &u, const Interval &interval);
  void compute(Part &part, const UnitState &u, const Interval &interval,
               const ShxDeviceKernel &kernel);
  void store(Part &part, const UnitState &u, const Interval &interval);

  Context &context;
  const bool withMasters;
  Stream loads, stores;
  DeviceMemory memory;
  std::vector<Part> parts;
  size_t next = 0;
  Point begun, loadsEnd;
  Point *lastStored = nullptr; // of this function
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_STAGING_H
