// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What no caller can answer: no memory, and what LLVM calls a fatal error. It
// ends as one line and exit code 1 like every other error, and temporary files
// are removed. No LLVM here, so that the command line's parser can say it, too.

#ifndef SHARDONNX_SUPPORT_LASTRESORT_H
#define SHARDONNX_SUPPORT_LASTRESORT_H

namespace shardonnx {

/// Once, at the start of `main`. `program` begins the line.
void installLastResort(const char *program);

/// Ends the program so.
[[noreturn]] void endWithError(const char *message);

} // namespace shardonnx

#endif // SHARDONNX_SUPPORT_LASTRESORT_H
