// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the compiler's command line and the executable's read whole numbers:
// within bounds, with nothing behind them.

#ifndef SHARDONNX_RUNTIME_WHOLENUMBER_H
#define SHARDONNX_RUNTIME_WHOLENUMBER_H

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

namespace shardonnx {

inline std::optional<int64_t> parseWhole(const std::string &text, int64_t least,
                                         int64_t most) {
  if (text.empty() || (text.size() > 1 && text[0] == '0'))
    return std::nullopt; // CLI11 would take 010 for 8
  char *end = nullptr;
  errno = 0;
  long long value = std::strtoll(text.c_str(), &end, 10);
  if (*end || errno || value < least || value > most)
    return std::nullopt;
  return value;
}

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_WHOLENUMBER_H
