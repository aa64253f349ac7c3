// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <shardonnx/runtime/ABI.h>
#include <shardonnx/runtime/Run.h>
#include <stdio.h>

int main(int argc, char **argv) {
  printf("own executable, manifest of %llu bytes\n",
         (unsigned long long)shx_manifest_size);
  fflush(stdout);
  return shx_run(argc, argv);
}
