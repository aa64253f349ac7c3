// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Masters that lie in halves (MasterHalves.h), as the f32 that weights,
// checkpoints and exports are.

#ifndef SHARDONNX_RUNTIME_CUDA_MASTERS_H
#define SHARDONNX_RUNTIME_CUDA_MASTERS_H

#include "../../core/Engine.h"
#include "../io/Upload.h"
#include "State.h"
#include <functional>

namespace shardonnx::rt::cuda {

/// put(to, bytes, count, fill): there belong `count` elements of `bytes` each,
/// as `fill` makes them.
using PutFilled = std::function<void(uint8_t *to, int64_t bytes, int64_t count,
                                     const FillHost &fill)>;
/// get(from, sink): gives what lies there to the sink, as Download does.
using GetBytes = std::function<void(const uint8_t *from, int64_t count,
                                    const Engine::Sink &sink)>;

/// Puts both halves of masters from element `begin` of the unit on.
void splitMasters(const UnitState &unit, int64_t begin, const float *values,
                  int64_t count, const PutFilled &put);
/// Gives the masters of an interval of the unit, piece by piece.
void joinMasters(const UnitState &unit, const Interval &interval,
                 const GetBytes &get, const Engine::Sink &sink);

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_MASTERS_H
