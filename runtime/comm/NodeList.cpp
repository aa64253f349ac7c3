// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See NodeList.h. Only the first host is expanded: it is where rank 0 runs.

#include "NodeList.h"
#include <cctype>
#include <cstddef>

namespace shardonnx::rt {
namespace {

bool isHostCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' ||
         c == '_';
}

// A number without a sign, at most a million.
std::optional<int> number(const std::string &text, size_t &at) {
  constexpr int kLimit = 1 << 20;
  size_t begin = at;
  int value = 0;
  while (at < text.size() &&
         std::isdigit(static_cast<unsigned char>(text[at]))) {
    value = value * 10 + (text[at++] - '0');
    if (value > kLimit)
      return std::nullopt;
  }
  return at == begin ? std::nullopt : std::optional<int>(value);
}

} // namespace

// What stands before the first comma outside brackets, with each bracket's
// first entry in its place; of an entry `01-04` that is `01`, zeros kept.
std::optional<std::string> firstHost(const std::string &list) {
  std::string host;
  size_t at = 0;
  while (at < list.size() && list[at] != ',') {
    if (list[at] != '[') {
      if (!isHostCharacter(list[at]))
        return std::nullopt;
      host += list[at++];
      continue;
    }
    size_t close = list.find(']', at), begin = at + 1;
    if (close == std::string::npos)
      return std::nullopt;
    size_t digit = begin;
    while (std::isdigit(static_cast<unsigned char>(list[digit])))
      host += list[digit++];
    if (digit == begin ||
        (list[digit] != '-' && list[digit] != ',' && list[digit] != ']'))
      return std::nullopt;
    at = close + 1;
  }
  return host.empty() ? std::nullopt : std::optional<std::string>(host);
}

std::optional<int> countOfNode(const std::string &list, int node) {
  size_t at = 0;
  while (at < list.size()) {
    std::optional<int> count = number(list, at);
    std::optional<int> times = 1;
    if (!count)
      return std::nullopt;
    if (list.compare(at, 2, "(x") == 0) {
      at += 2;
      times = number(list, at);
      if (!times || at >= list.size() || list[at] != ')')
        return std::nullopt;
      ++at;
    }
    if (node < *times)
      return count;
    node -= *times;
    if (at < list.size() && list[at] != ',')
      return std::nullopt;
    ++at;
  }
  return std::nullopt;
}

} // namespace shardonnx::rt
