// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The generated program as values, so that the rest of the runtime does not
// need one to be linked.

#ifndef SHARDONNX_RUNTIME_PROGRAM_H
#define SHARDONNX_RUNTIME_PROGRAM_H

#include "shardonnx/runtime/ABI.h"
#include <string_view>

namespace shardonnx::rt {

struct Program {
  std::string_view manifest;
  void (*firstMicrobatch)(ShxContext *);
  void (*nextMicrobatch)(ShxContext *);
  void (*update)(ShxContext *);
  void (*evalMicrobatch)(ShxContext *);
};

class Platform;

/// The whole of a training executable; returns its exit code.
int run(Platform &platform, const Program &program, int argc, char **argv);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_PROGRAM_H
