// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tokens of PTX text.

#ifndef SHARDONNX_TEST_CUDA_EMULATOR_PTXLEXER_H
#define SHARDONNX_TEST_CUDA_EMULATOR_PTXLEXER_H

#include <cstdint>
#include <string>

namespace shardonnx::emulator {

struct PtxToken {
  enum Kind { End, Word, Int, Float32, Float64, String, Punctuation };
  Kind kind = End;
  /// A word may contain dots (`ld.global.f32`, `%tid.x`, `.reg`).
  std::string text;
  int64_t value = 0;
  unsigned line = 0;

  bool is(const char *what) const {
    return (kind == Punctuation || kind == Word) && text == what;
  }
};

class PtxLexer {
public:
  explicit PtxLexer(const char *text) : at(text) { advance(); }

  const PtxToken &peek() const { return current; }
  PtxToken next() {
    PtxToken token = current;
    advance();
    return token;
  }
  bool accept(const char *what) {
    if (!current.is(what))
      return false;
    advance();
    return true;
  }
  void expect(const char *what);
  std::string word();
  /// Skips to the end of the line (directives for debuggers).
  void skipLine();

private:
  void advance();
  void skipSpace();
  void number();

  const char *at;
  unsigned line = 1;
  PtxToken current;
};

} // namespace shardonnx::emulator

#endif
