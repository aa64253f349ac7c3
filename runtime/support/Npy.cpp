// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A .npy header is a Python dictionary as text. Files come from anywhere, so
// every length and number is checked.

#include "shardonnx/runtime/Npy.h"
#include <cstring>

namespace shardonnx {
namespace {

// The text after 'key': in the header's dictionary.
std::string_view field(std::string_view header, const std::string &key) {
  size_t begin = header.find("'" + key + "':");
  if (begin == std::string_view::npos)
    return {};
  begin = header.find_first_not_of(' ', begin + key.size() + 3);
  return begin == std::string_view::npos ? std::string_view()
                                         : header.substr(begin);
}

bool isDigit(char c) { return c >= '0' && c <= '9'; }

// (2, 3), (2,) or (); false if a number does not fit.
bool parseShape(std::string_view text, std::vector<int64_t> &shape,
                std::string &error) {
  size_t end = text.find(')');
  if (text.empty() || text[0] != '(' || end == std::string_view::npos) {
    error = "it has no shape";
    return false;
  }
  for (size_t i = 1; i < end;) {
    if (!isDigit(text[i])) {
      if (text[i] != ',' && text[i] != ' ') {
        error = "its shape is damaged";
        return false;
      }
      ++i;
      continue;
    }
    int64_t dim = 0;
    for (; isDigit(text[i]); ++i)
      if (__builtin_mul_overflow(dim, int64_t(10), &dim) ||
          __builtin_add_overflow(dim, int64_t(text[i] - '0'), &dim)) {
        error = "it is too large";
        return false;
      }
    shape.push_back(dim);
  }
  return true;
}

} // namespace

std::optional<NpyHeader> parseNpyHeader(std::string_view bytes,
                                        std::string &error) {
  if (bytes.size() < 12 || bytes.substr(0, 6) != "\x93NUMPY") {
    error = "it is no .npy file";
    return std::nullopt;
  }
  bool longHeader = static_cast<unsigned char>(bytes[6]) >= 2;
  size_t prefix = longHeader ? 12 : 10;
  uint32_t size = 0;
  std::memcpy(&size, bytes.data() + 8, longHeader ? 4 : 2);
  if (size > kLargestNpyHeader || prefix + size > bytes.size()) {
    error = "its header is truncated";
    return std::nullopt;
  }
  std::string_view text = bytes.substr(prefix, size);
  NpyHeader header;
  header.length = static_cast<int64_t>(prefix + size);
  std::string_view descr = field(text, "descr");
  size_t close = descr.find('\'', 1);
  if (descr.empty() || descr[0] != '\'' || close == std::string_view::npos) {
    error = "it holds records or has no dtype";
    return std::nullopt;
  }
  header.descr = std::string(descr.substr(1, close - 1));
  header.fortranOrder = field(text, "fortran_order").substr(0, 5) != "False";
  if (!parseShape(field(text, "shape"), header.shape, error))
    return std::nullopt;
  return header;
}

std::string makeNpyHeader(std::string_view descr,
                          const std::vector<int64_t> &shape) {
  std::string text = "{'descr': '" + std::string(descr) +
                     "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  text += shape.size() == 1 ? ",), }" : "), }";
  // The elements begin at a multiple of 64.
  constexpr size_t kPrefix = 10;
  text.append(63 - (kPrefix + text.size()) % 64, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

} // namespace shardonnx
