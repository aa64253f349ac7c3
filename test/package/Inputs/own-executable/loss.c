// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <shardonnx/runtime/ABI.h>
#include <shardonnx/runtime/IndexABI.h>
#include <stdio.h>

int main(void) {
  float logits[2 * 2] = {0, 0, 3, 3}, seed = 1, loss = 0, gradient[2 * 2];
  int64_t labels[2] = {0, 1};
  ShxCrossEntropy entropy = {.rows = 2,
                             .classes = 2,
                             .ignoreIndex = -100,
                             .dtype = SHX_F32,
                             .labelDtype = SHX_I64};
  shx_cross_entropy(NULL, &entropy, logits, labels, &seed, &loss, gradient);
  printf("%.4f %g %g %g %g\n", loss, gradient[0], gradient[1], gradient[2],
         gradient[3]);
  return 0;
}
