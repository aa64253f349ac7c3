// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What files of published models call otherwise than transformers' modules do,
// and so what its save_pretrained writes (transformers/conversion_mapping.py).

#ifndef SHARDONNX_RUNTIME_PUBLISHEDNAMES_H
#define SHARDONNX_RUNTIME_PUBLISHEDNAMES_H

#include <cstdint>
#include <string>
#include <vector>

namespace shardonnx::rt {

/// The names that a file may have instead.
std::vector<std::string> publishedNames(const std::string &name);

/// Where a parameter is a stack of experts' matrices, the ways in which a file
/// may have them apart: each the names of all, one behind the other.
std::vector<std::vector<std::string>> publishedParts(const std::string &name,
                                                     int64_t experts);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_PUBLISHEDNAMES_H
