// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes on the command line: a whole number of bytes, or one with a suffix. GB
// is 10^9 as on a data sheet, GiB is 2^30 as in a memory plan.

#ifndef SHARDONNX_SUPPORT_BYTESIZE_H
#define SHARDONNX_SUPPORT_BYTESIZE_H

#include "shardonnx/runtime/WholeNumber.h"

namespace shardonnx {

/// Bytes of `80GB`, `512MiB`, `1048576`; nothing for anything else, 0 included.
inline std::optional<int64_t> parseByteSize(const std::string &text) {
  static constexpr struct {
    const char *suffix;
    int64_t factor;
  } kSuffixes[] = {{"TiB", INT64_C(1) << 40},
                   {"GiB", INT64_C(1) << 30},
                   {"MiB", INT64_C(1) << 20},
                   {"KiB", INT64_C(1) << 10},
                   {"TB", INT64_C(1000000000000)},
                   {"GB", 1000000000},
                   {"MB", 1000000},
                   {"KB", 1000},
                   {"kB", 1000},
                   {"B", 1},
                   {"", 1}};
  constexpr int64_t kMost = INT64_C(1) << 52;
  size_t digits = text.find_first_not_of("0123456789");
  std::string suffix = digits == std::string::npos ? "" : text.substr(digits);
  for (const auto &known : kSuffixes)
    if (suffix == known.suffix) {
      std::optional<int64_t> count =
          parseWhole(text.substr(0, digits), 1, kMost / known.factor);
      return count ? std::optional(*count * known.factor) : std::nullopt;
    }
  return std::nullopt;
}

} // namespace shardonnx

#endif // SHARDONNX_SUPPORT_BYTESIZE_H
