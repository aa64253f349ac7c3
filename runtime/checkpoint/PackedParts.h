// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packed weights from a checkpoint: as they are stored where the same parts are
// packed, else decoded and packed anew.

#ifndef SHARDONNX_RUNTIME_CHECKPOINT_PACKEDPARTS_H
#define SHARDONNX_RUNTIME_CHECKPOINT_PACKEDPARTS_H

#include "../core/Engine.h"
#include "Reader.h"
#include <vector>

namespace shardonnx::rt {

/// Whether each packed weight of the program consists of the same parts as the
/// checkpoint's.
bool hasSamePackings(const Manifest &manifest, const CheckpointReader &reader);

/// Loads what this rank owns, in elements of the unit's section.
void loadPacked(Engine &engine, CheckpointReader &reader, size_t unit,
                const Manifest::Param &param, const Interval &owned);

/// The elements of a whole packed weight.
std::vector<float> decodePacked(CheckpointReader &reader,
                                const CheckpointReader::Place &place);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CHECKPOINT_PACKEDPARTS_H
