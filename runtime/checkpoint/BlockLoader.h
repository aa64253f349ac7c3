// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moments in int8 from a checkpoint: as they are stored where the blocks are
// the same, else encoded anew.

#ifndef SHARDONNX_RUNTIME_CHECKPOINT_BLOCKLOADER_H
#define SHARDONNX_RUNTIME_CHECKPOINT_BLOCKLOADER_H

#include "../core/Engine.h"
#include "Reader.h"

namespace shardonnx::rt {

/// Whether the program's blocks are the checkpoint's: every parameter begins as
/// far behind the begin of a block, and is split alike over a tensor axis.
bool hasSameBlocks(const Manifest &manifest, const CheckpointReader &reader);

/// Loads what this rank owns of the moments of a program that has them in int8.
void loadBlocks(Engine &engine, CheckpointReader &reader);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CHECKPOINT_BLOCKLOADER_H
