// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef SHARDONNX_RUNTIME_CPU_NEWTONSCHULZ_H
#define SHARDONNX_RUNTIME_CPU_NEWTONSCHULZ_H

#include <cstdint>

namespace shardonnx::rt {

/// Replaces a row-major matrix in bf16 by one whose singular values are near 1,
/// as torch.optim.Muon does. workspace: planNewtonSchulz's bytes, aligned to a
/// cache line.
void orthogonalize(uint16_t *matrix, int64_t rows, int64_t columns,
                   void *workspace);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_NEWTONSCHULZ_H
