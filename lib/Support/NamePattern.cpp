// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See NamePattern.h.

#include "shardonnx/Support/NamePattern.h"

#include "llvm/Support/Regex.h"

std::string shardonnx::checkNamePattern(const std::string &text) {
  std::string why;
  if (llvm::Regex("^(" + text + ")$").isValid(why))
    return "";
  return "'" + text + "' is not a regular expression: " + why;
}
