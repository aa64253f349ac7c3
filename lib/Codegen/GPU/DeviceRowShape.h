// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the rows of a GPU kernel are spread over threads.

#ifndef SHARDONNX_LIB_CODEGEN_GPU_DEVICEROWSHAPE_H
#define SHARDONNX_LIB_CODEGEN_GPU_DEVICEROWSHAPE_H

#include "DeviceEmitter.h"
#include "shardonnx/Codegen/Kernel/RowPlan.h"

namespace shardonnx::kernels {

/// How a row is spread over threads.
struct RowShape {
  unsigned threads = kWarp; // of one row: a power of two, or whole warps
  unsigned slots = 1;       // vectors of a thread: in registers, or in flight
  bool resident = true;     // the row stays in registers
  bool walks = false;       // a block has rows one behind the other

  unsigned rowsPerBlock() const;
  unsigned blockThreads() const { return threads * rowsPerBlock(); }
};

/// Few idle lanes, no barriers if a warp will do, and threads enough.
RowShape chooseShape(const RowPlan &plan, const DeviceAccess &access,
                     const DeviceTarget &target);

} // namespace shardonnx::kernels

#endif // SHARDONNX_LIB_CODEGEN_GPU_DEVICEROWSHAPE_H
