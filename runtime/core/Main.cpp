// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The entry of a training executable. It stands alone in its object, so that an
// executable with a `main` of its own does not take it from the library.

#include "shardonnx/runtime/Run.h"

int main(int argc, char **argv) { return shx_run(argc, argv); }
