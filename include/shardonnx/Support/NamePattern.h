// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Regular expressions over whole names, as options give them.

#ifndef SHARDONNX_SUPPORT_NAMEPATTERN_H
#define SHARDONNX_SUPPORT_NAMEPATTERN_H

#include <string>

namespace llvm {
class Regex;
class StringRef;
} // namespace llvm

namespace shardonnx {

/// Matches whole names. The language is POSIX's of extended regular expressions
/// with \d, \w, \s, their opposites and (?:…), as Python has them; the result
/// is not valid where `text` is none.
llvm::Regex wholeName(llvm::StringRef text);

/// Why `text` is none, for people; empty where it is one.
std::string checkNamePattern(const std::string &text);

} // namespace shardonnx

#endif // SHARDONNX_SUPPORT_NAMEPATTERN_H
