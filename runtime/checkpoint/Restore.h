// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Going on from a checkpoint at any world size, strategy and choice of units:
// each rank reads the parts of the parameters that it owns now.

#ifndef SHARDONNX_RUNTIME_CHECKPOINT_RESTORE_H
#define SHARDONNX_RUNTIME_CHECKPOINT_RESTORE_H

#include "../comm/Exchange.h"
#include "../core/Engine.h"
#include "../data/DataIdentity.h"
#include <optional>
#include <string>

namespace shardonnx::rt {

struct Restored {
  TrainState state;
  std::string folder;
  std::optional<DataIdentity> data; // that it was trained on, where it says so
};

/// Fills masters, moments and frozen slices from what --resume names, checks
/// that the state is the one that was saved, and returns how far it had come.
/// Every rank calls it. Nothing: --resume and --save name one folder, and it
/// holds no checkpoint yet.
std::optional<Restored> restore(const Options &options, Engine &engine,
                                Exchange &exchange, const Topology &topology);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CHECKPOINT_RESTORE_H
