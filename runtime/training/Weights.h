// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The first weights: read from the model's files, or drawn anew. Each rank
// fills what it owns and nothing else.

#ifndef SHARDONNX_RUNTIME_WEIGHTS_H
#define SHARDONNX_RUNTIME_WEIGHTS_H

#include "../core/Engine.h"
#include <cstdint>
#include <string>

namespace shardonnx::rt {

/// Fills masters and frozen slices from the model; adapters, which it has not,
/// are drawn from `seed`. `checkHash`: compare the model's file with the one
/// that was compiled (once per machine is enough).
void loadWeights(Engine &engine, const std::string &modelOverride,
                 uint64_t seed, bool checkHash);

/// Draws them: normal(0, 0.02) for matrices, ones for the weights of norms,
/// zeros for other vectors, adapters as PEFT draws them. The same at every
/// world size and on any number of threads. benchmarks/peer.py draws the same
/// numbers for PyTorch.
void drawWeights(Engine &engine, uint64_t seed, int threads = 1);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_WEIGHTS_H
