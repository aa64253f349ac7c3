// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a parameter is split, in the manifest and in a checkpoint's index.

#ifndef SHARDONNX_RUNTIME_MESHJSON_H
#define SHARDONNX_RUNTIME_MESHJSON_H

#include "../support/Error.h"
#include "shardonnx/runtime/Manifest.h"
#include <nlohmann/json.hpp>

namespace shardonnx::rt {

template <typename Json> Json toJson(const Split &split) {
  return {{"dim", split.dim}, {"sections", split.sections}};
}

/// Sets the split of a parameter whose shape is one of `parts`; throws where
/// they do not fit each other.
template <typename Json>
void readSplit(const Json &json, int64_t parts, Manifest::Param &param) {
  constexpr int64_t kLargest = int64_t(1) << 50;
  auto found = json.find("split");
  if (found == json.end())
    return;
  Split split;
  split.dim = found->at("dim").template get<int64_t>();
  split.sections = found->at("sections").template get<std::vector<int64_t>>();
  bool fits = parts > 1 && split.dim >= 0 &&
              split.dim < static_cast<int64_t>(param.shape.size());
  int64_t size = 0;
  for (int64_t section : split.sections) {
    fits &= section > 0 && section <= kLargest && size <= kLargest &&
            (section % parts == 0 || split.sections.size() == 1);
    size += fits ? section : 0;
  }
  // Of one section the last part may have less, but something.
  int64_t each = (size + parts - 1) / parts;
  if (!fits || each != param.shape[static_cast<size_t>(split.dim)] ||
      each * (parts - 1) >= size)
    fail("'", param.name, "' is split where ", parts,
         " parts do not divide it");
  param.split = std::move(split);
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_MESHJSON_H
