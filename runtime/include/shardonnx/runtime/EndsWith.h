// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What C++20's std::string_view::ends_with does: how a kind of file is told by
// its name, and a parameter by the last word of its own.

#ifndef SHARDONNX_RUNTIME_ENDSWITH_H
#define SHARDONNX_RUNTIME_ENDSWITH_H

#include <string_view>

namespace shardonnx {

inline bool endsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() &&
         text.substr(text.size() - end.size()) == end;
}

} // namespace shardonnx

#endif
