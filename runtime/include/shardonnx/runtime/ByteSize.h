// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bytes as people write and read them. GB is 10^9 as on a data sheet, GiB is
// 2^30 as in a memory plan.

#ifndef SHARDONNX_RUNTIME_BYTESIZE_H
#define SHARDONNX_RUNTIME_BYTESIZE_H

#include "shardonnx/runtime/WholeNumber.h"
#include <cmath>
#include <cstdio>

namespace shardonnx {

/// Bytes of `80GB`, `0.25GiB`, `512M`, `1048576`; nothing for anything else, 0
/// included. What is no whole byte is left out.
inline std::optional<int64_t> parseByteSize(const std::string &text) {
  constexpr int64_t kMost = INT64_C(1) << 52;
  size_t letters = text.find_first_not_of("0123456789.");
  std::string digits = text.substr(0, letters);
  std::string suffix = letters == std::string::npos ? "" : text.substr(letters);
  if (!suffix.empty() && suffix.back() == 'B')
    suffix.pop_back();
  std::optional<int64_t> factor = factorOfSuffix(suffix);
  if (!factor)
    return std::nullopt;
  if (digits.find('.') == std::string::npos) {
    std::optional<int64_t> count = parseDigits(digits, 1, kMost / *factor);
    return count ? std::optional(*count * *factor) : std::nullopt;
  }
  // A decimal point stands between digits, before a suffix.
  bool decimal = *factor > 1 && digits.front() != '.' && digits.back() != '.' &&
                 digits.find('.') == digits.rfind('.') && digits.size() < 20;
  double bytes = decimal ? std::floor(std::strtod(digits.c_str(), nullptr) *
                                      static_cast<double>(*factor))
                         : 0;
  if (bytes < 1 || bytes > static_cast<double>(kMost))
    return std::nullopt;
  return static_cast<int64_t>(bytes);
}

/// Three digits: 512 B, 1.50 GiB, 19.1 MiB, 768 KiB.
inline std::string formatBytes(int64_t bytes) {
  static constexpr const char *kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; std::fabs(value) >= 1023.5 && unit + 1 < std::size(kUnits); ++unit)
    value /= 1024;
  int decimals = unit == 0 || std::fabs(value) >= 99.95 ? 0
                 : std::fabs(value) >= 9.995            ? 1
                                                        : 2;
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f %s", decimals, value, kUnits[unit]);
  return text;
}

/// The same where somebody will need the exact number.
inline std::string formatExactBytes(int64_t bytes) {
  std::string text = formatBytes(bytes);
  return bytes < 1024 ? text : text + " (" + std::to_string(bytes) + " bytes)";
}

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_BYTESIZE_H
