// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `--lora` as the command line and a configuration have it. No MLIR here.

#ifndef SHARDONNX_SUPPORT_LORA_H
#define SHARDONNX_SUPPORT_LORA_H

#include "shardonnx/runtime/Lora.h"
#include "shardonnx/runtime/Packing.h"

#include <optional>
#include <string>

namespace shardonnx {

/// RANK[,alpha=A][,dropout=P][,rslora]. What is wrong with the text is said in
/// `error`.
std::optional<Lora> parseLora(const std::string &text, std::string &error);

} // namespace shardonnx

#endif // SHARDONNX_SUPPORT_LORA_H
