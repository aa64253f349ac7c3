// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See NamePattern.h.

#include "shardonnx/Support/NamePattern.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Regex.h"

using llvm::StringRef;

namespace shardonnx {
namespace {

/// The members of a class of Python's, between brackets; empty for a character
/// that is no class.
StringRef membersOf(char name) {
  switch (name) {
  case 'd':
  case 'D':
    return "0-9";
  case 'w':
  case 'W':
    return "A-Za-z0-9_";
  case 's':
  case 'S':
    return " \t";
  default:
    return "";
  }
}

/// As POSIX has it. What neither has, like \b or (?!…), goes into `unknown`.
std::string asPosix(StringRef text, std::string &unknown) {
  std::string result;
  bool inSet = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '\\' && i + 1 < text.size()) {
      char next = text[++i];
      StringRef members = membersOf(next);
      bool opposite = next >= 'A' && next <= 'Z';
      if (members.empty() && (llvm::isAlnum(next) || (inSet && opposite)))
        unknown = text.substr(i - 1, 2).str();
      if (members.empty())
        result += {'\\', next};
      else if (inSet && !opposite)
        result += members;
      else if (inSet)
        unknown = text.substr(i - 1, 2).str();
      else
        result += (opposite ? "[^" : "[") + members.str() + "]";
      continue;
    }
    if (!inSet && text.substr(i).starts_with("(?")) {
      if (!text.substr(i).starts_with("(?:"))
        unknown = text.substr(i, 3).str();
      i += 2; // groups are not counted
      result += '(';
      continue;
    }
    // A bracket that comes first is one of the set.
    if (c == '[' && !inSet) {
      inSet = true;
      result += c;
      if (text.substr(i + 1).starts_with("^"))
        result += text[++i];
      if (text.substr(i + 1).starts_with("]"))
        result += text[++i];
      continue;
    }
    inSet &= c != ']';
    result += c;
  }
  return result;
}

} // namespace

llvm::Regex wholeName(StringRef text) {
  std::string unknown;
  return llvm::Regex("^(" + asPosix(text, unknown) + ")$");
}

std::string checkNamePattern(const std::string &text) {
  std::string unknown, why;
  std::string pattern = asPosix(text, unknown);
  if (!unknown.empty())
    why = "'" + unknown +
          "' is not known; it may have \\d, \\w, \\s, sets, "
          "groups, ., *, +, ?, {n,m} and |";
  else if (llvm::Regex("^(" + pattern + ")$").isValid(why))
    return "";
  return "'" + text + "' is not a regular expression: " + why;
}

} // namespace shardonnx
