// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The text of --mesh.

#ifndef SHARDONNX_SUPPORT_MESH_H
#define SHARDONNX_SUPPORT_MESH_H

#include "shardonnx/runtime/Mesh.h"

#include <optional>
#include <string>

namespace shardonnx {

/// AXIS:N[,AXIS:N…]. What is wrong with the text is said in `error`.
std::optional<Mesh> parseMesh(const std::string &text, std::string &error);

} // namespace shardonnx

#endif // SHARDONNX_SUPPORT_MESH_H
