// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tokens of PTX text.

#include "PtxLexer.h"
#include "Ptx.h"
#include <cctype>
#include <cstdlib>
#include <cstring>

using namespace shardonnx::emulator;

static bool startsWord(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '%' ||
         c == '$' || c == '.';
}

static bool continuesWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' ||
         c == '.' || c == ':';
}

void PtxLexer::expect(const char *what) {
  if (!accept(what))
    throw PtxError(current.line, std::string("expected '") + what +
                                     "', found '" + current.text + "'");
}

std::string PtxLexer::word() {
  if (current.kind != PtxToken::Word)
    throw PtxError(current.line,
                   "expected a name, found '" + current.text + "'");
  return next().text;
}

void PtxLexer::skipLine() {
  unsigned start = current.line;
  while (current.kind != PtxToken::End && current.line == start)
    advance();
}

void PtxLexer::skipSpace() {
  for (;;) {
    if (*at == '\n') {
      ++line;
      ++at;
    } else if (std::isspace(static_cast<unsigned char>(*at))) {
      ++at;
    } else if (at[0] == '/' && at[1] == '/') {
      while (*at && *at != '\n')
        ++at;
    } else if (at[0] == '/' && at[1] == '*') {
      for (at += 2; *at && !(at[0] == '*' && at[1] == '/'); ++at)
        line += *at == '\n';
      at += *at ? 2 : 0;
    } else {
      return;
    }
  }
}

void PtxLexer::number() {
  const char *start = at;
  char second = start[0] == '0' ? start[1] : '\0';
  if (std::strchr("fFdD", second) && second &&
      std::isxdigit(static_cast<unsigned char>(start[2]))) {
    char *end;
    current.value = static_cast<int64_t>(std::strtoull(start + 2, &end, 16));
    current.kind =
        second == 'f' || second == 'F' ? PtxToken::Float32 : PtxToken::Float64;
    at = end;
    return;
  }
  char *end;
  bool binary = second == 'b' || second == 'B';
  current.value = static_cast<int64_t>(
      std::strtoull(binary ? start + 2 : start, &end, binary ? 2 : 0));
  current.kind = PtxToken::Int;
  bool hex = second == 'x' || second == 'X';
  if (!hex && (*end == '.' || *end == 'e' || *end == 'E')) {
    double value = std::strtod(start, &end);
    std::memcpy(&current.value, &value, sizeof value);
    current.kind = PtxToken::Float64;
  }
  if (*end == 'U')
    ++end;
  at = end;
}

void PtxLexer::advance() {
  skipSpace();
  current = PtxToken();
  current.line = line;
  if (!*at)
    return;
  const char *start = at;
  if (std::isdigit(static_cast<unsigned char>(*at))) {
    number();
  } else if (startsWord(*at)) {
    current.kind = PtxToken::Word;
    // A colon belongs to an opcode (`.shared::cta`), not to a label's end.
    for (++at; continuesWord(*at); ++at)
      if (*at == ':' && at[1] != ':' && at[-1] != ':')
        break;
  } else if (*at == '"') {
    current.kind = PtxToken::String;
    for (++at; *at && *at != '"'; ++at)
      line += *at == '\n';
    at += *at ? 1 : 0;
  } else {
    current.kind = PtxToken::Punctuation;
    ++at;
  }
  current.text.assign(start, at);
}
