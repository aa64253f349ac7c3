// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// First weights from a state dict: a .safetensors file, or the index of several
// (model.safetensors.index.json), under the state dict's names or ONNX's.

#ifndef SHARDONNX_RUNTIME_STATEDICT_H
#define SHARDONNX_RUNTIME_STATEDICT_H

#include "../core/Engine.h"
#include <string>

namespace shardonnx::rt {

/// By the file's name.
bool isStateDict(const std::string &path);

/// Fills what this rank owns, reading no more than that. Parameters that are
/// missing or have another shape are an error that names them; with `warns`
/// tensors that the program has no parameter for are named too.
void loadStateDict(Engine &engine, const std::string &path, bool warns);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_STATEDICT_H
