// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <shardonnx/runtime/ABI.h>
#include <shardonnx/runtime/IndexABI.h>
#include <stdio.h>

int main(void) {
  float a[2 * 3] = {1, 2, 3, 4, 5, 6}, b[3 * 2] = {1, 0, 0, 1, 1, 1}, c[2 * 2];
  ShxGemm gemm = {.m = 2, .n = 2, .k = 3, .lda = 3, .ldb = 2, .ldc = 2};
  shx_gemm(NULL, &gemm, a, b, c, NULL);
  printf("%g %g %g %g\n", c[0], c[1], c[2], c[3]);
  return 0;
}
