// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the compiler's command line and the executable's read whole numbers:
// within bounds, with nothing behind them but K, M, G or T, which are powers of
// 1000 (Ki, Mi, Gi, Ti: of 1024).

#ifndef SHARDONNX_RUNTIME_WHOLENUMBER_H
#define SHARDONNX_RUNTIME_WHOLENUMBER_H

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

namespace shardonnx {

inline std::optional<int64_t> parseDigits(const std::string &text,
                                          int64_t least, int64_t most) {
  if (text.empty() || (text.size() > 1 && text[0] == '0'))
    return std::nullopt; // CLI11 would take 010 for 8
  char *end = nullptr;
  errno = 0;
  long long value = std::strtoll(text.c_str(), &end, 10);
  if (*end || errno || value < least || value > most)
    return std::nullopt;
  return value;
}

/// 1 of no suffix; nothing of one that is unknown.
inline std::optional<int64_t> factorOfSuffix(const std::string &suffix) {
  static constexpr struct {
    const char *suffix;
    int64_t factor;
  } kSuffixes[] = {{"", 1},
                   {"K", 1000},
                   {"k", 1000},
                   {"M", 1000000},
                   {"G", 1000000000},
                   {"T", INT64_C(1000000000000)},
                   {"Ki", INT64_C(1) << 10},
                   {"Mi", INT64_C(1) << 20},
                   {"Gi", INT64_C(1) << 30},
                   {"Ti", INT64_C(1) << 40}};
  for (const auto &known : kSuffixes)
    if (suffix == known.suffix)
      return known.factor;
  return std::nullopt;
}

inline std::optional<int64_t> parseWhole(const std::string &text, int64_t least,
                                         int64_t most) {
  size_t letters = text.find_first_not_of("-0123456789");
  std::optional<int64_t> factor =
      factorOfSuffix(letters == std::string::npos ? "" : text.substr(letters));
  if (!factor)
    return std::nullopt;
  std::optional<int64_t> value =
      parseDigits(text.substr(0, letters), INT64_MIN, INT64_MAX);
  int64_t product = 0;
  if (!value || __builtin_mul_overflow(*value, *factor, &product) ||
      product < least || product > most)
    return std::nullopt;
  return product;
}

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_WHOLENUMBER_H
