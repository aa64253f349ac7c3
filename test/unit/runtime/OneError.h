// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that fail say so in one line.

#ifndef SHARDONNX_TEST_ONEERROR_H
#define SHARDONNX_TEST_ONEERROR_H

#include "TestFiles.h"
#include <gtest/gtest.h>

namespace shardonnx::test {

// `err`, which all ranks wrote, is one error that has `part` in it, and nothing
// else that the run has to say.
inline void expectOneError(const std::string &err, const std::string &part) {
  std::vector<std::string> lines = linesOf(err);
  ASSERT_EQ(lines.size(), 1u) << err;
  EXPECT_NE(lines[0].find(": error: "), std::string::npos) << err;
  EXPECT_NE(lines[0].find(part), std::string::npos) << err;
}
inline void expectOneError(const Finished &f, const std::string &part) {
  expectOneError(f.err, part);
}

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_ONEERROR_H
