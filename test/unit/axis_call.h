// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A collective of a mesh axis as a manifest has it.

#ifndef SHARDONNX_TEST_UNIT_AXIS_CALL_H
#define SHARDONNX_TEST_UNIT_AXIS_CALL_H

#include "shardonnx/runtime/Manifest.h"

namespace shardonnx {

/// `name`: the collective and its axis; `bytes`: what the call reads.
inline Manifest::Launch axisCall(const char *name, double bytes) {
  Manifest::Launch launch;
  launch.kind = "mesh";
  launch.name = name;
  launch.leastBytes = launch.readBytes = bytes;
  launch.calls = 1;
  return launch;
}

} // namespace shardonnx

#endif // SHARDONNX_TEST_UNIT_AXIS_CALL_H
