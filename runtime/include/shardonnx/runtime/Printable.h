// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text for people's terminals: names come from files, and a file may hold any
// bytes. Whatever would move the cursor, change colours or the direction of
// writing, or is no UTF-8, is shown as \xNN.

#ifndef SHARDONNX_RUNTIME_PRINTABLE_H
#define SHARDONNX_RUNTIME_PRINTABLE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardonnx {

/// The bytes of the character that `text` begins with; 0: it is no UTF-8.
inline size_t utf8Length(std::string_view text, uint32_t &code) {
  auto lead = static_cast<unsigned char>(text[0]);
  size_t length = lead < 0x80   ? 1
                  : lead < 0xc2 ? 0 // continues, or has a shorter form
                  : lead < 0xe0 ? 2
                  : lead < 0xf0 ? 3
                  : lead < 0xf5 ? 4
                                : 0;
  if (length == 0 || text.size() < length)
    return 0;
  code = length == 1 ? lead : lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    auto next = static_cast<unsigned char>(text[i]);
    if (next >> 6 != 2)
      return 0;
    code = code << 6 | (next & 0x3fu);
  }
  bool shorter = (length == 3 && code < 0x800) ||
                 (length == 4 && (code < 0x10000 || code > 0x10ffff));
  bool surrogate = code >= 0xd800 && code < 0xe000;
  return shorter || surrogate ? 0 : length;
}

/// Of C0, C1, the separators of lines and the marks of direction.
inline bool isControl(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) ||
         (code >= 0x200e && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

/// One line, unless `keepLines`: line ends and tabs become spaces.
inline std::string printable(std::string_view text, bool keepLines = false) {
  std::string line;
  while (!text.empty()) {
    uint32_t code = 0;
    size_t length = utf8Length(text, code);
    size_t count = length > 0 ? length : 1;
    if (text[0] == '\n' && keepLines)
      line += '\n';
    else if (text[0] == '\n' || text[0] == '\r' || text[0] == '\t')
      line += ' ';
    else if (length > 0 && !isControl(code))
      line += text.substr(0, length);
    else
      for (char c : text.substr(0, count)) {
        constexpr const char *kDigits = "0123456789abcdef";
        auto byte = static_cast<unsigned char>(c);
        line += "\\x";
        line += kDigits[byte >> 4];
        line += kDigits[byte & 15];
      }
    text.remove_prefix(count);
  }
  return line;
}

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_PRINTABLE_H
