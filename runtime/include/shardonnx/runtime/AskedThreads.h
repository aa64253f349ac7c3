// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How many threads a rank has where the environment says it, as executables
// start them and the compiler predicts them.

#ifndef SHARDONNX_RUNTIME_ASKEDTHREADS_H
#define SHARDONNX_RUNTIME_ASKEDTHREADS_H

#include "WholeNumber.h"
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

namespace shardonnx {

struct AskedThreads {
  int threads = 0;   // 0: the environment does not say, or says nonsense
  std::string wrong; // which it is, as an error
};

inline AskedThreads askedThreads() {
  AskedThreads asked;
  const char *text = std::getenv("SHARDONNX_NUM_THREADS");
  if (!text)
    return asked;
  if (std::optional<int64_t> threads = parseDigits(text, 1, 4096))
    asked.threads = static_cast<int>(*threads);
  else
    asked.wrong = std::string("SHARDONNX_NUM_THREADS=") + text +
                  " is not a number of threads";
  return asked;
}

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_ASKEDTHREADS_H
