// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// First weights from a state dict: a .safetensors file, the index of several
// (model.safetensors.index.json) or the folder of either, under the state
// dict's names or ONNX's.

#ifndef SHARDONNX_RUNTIME_STATEDICT_H
#define SHARDONNX_RUNTIME_STATEDICT_H

#include "../core/Engine.h"
#include <string>

namespace shardonnx::rt {

/// The file that --model names, or the one that `save_pretrained` has written
/// into the folder that it names; empty where it is no state dict. Says what
/// converts a file that only PyTorch reads.
std::string findStateDict(const std::string &path);

/// Fills what this rank owns, reading no more than that. Names may have a
/// prefix more or less than the program's, the same for all. Parameters that
/// are missing or have another shape are an error that names them; with `warns`
/// the prefix is told, and tensors that the program has no parameter for.
void loadStateDict(Engine &engine, const std::string &path, bool warns);

/// The same for the program's adapters, and for what else the file has of it
/// (PEFT's modules_to_save); what it has beyond the program is an error.
void loadAdapterWeights(Engine &engine, const std::string &path, bool warns);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_STATEDICT_H
