// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A folder with an adapter, as PEFT's save_pretrained writes it.

#ifndef SHARDONNX_RUNTIME_ADAPTER_H
#define SHARDONNX_RUNTIME_ADAPTER_H

#include "../core/Engine.h"
#include <string>

namespace shardonnx::rt {

/// Fills what this rank owns of the program's adapters. A configuration that
/// computes something else than the program, and parameters that are missing
/// or have another shape, are errors that name them.
void loadAdapter(Engine &engine, const std::string &folder, bool warns);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_ADAPTER_H
