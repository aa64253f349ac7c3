// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MeshABI.h's calls of a vocabulary that ranks share, of the rank at a place.

#ifndef SHARDONNX_RUNTIME_CPU_SHAREDVOCABULARY_H
#define SHARDONNX_RUNTIME_CPU_SHAREDVOCABULARY_H

#include "shardonnx/runtime/MeshABI.h"
#include <functional>

namespace shardonnx::rt {

void lookUpPart(const ShxEmbeddingPart &desc, int64_t place, const void *table,
                const void *ids, void *out);
void addToPart(ShxContext *ctx, const ShxEmbeddingPart &desc, int64_t place,
               const void *ids, const void *dy, void *dtable);

/// Gets the `count` numbers that every rank has, one behind the other.
using ShareGather =
    std::function<void(const float *mine, float *all, int64_t count)>;
void lossOfPart(const ShxLinearCrossEntropyPart &desc, int64_t place,
                const void *x, const void *w, const void *labels,
                const float *seed, float *loss, void *dx, void *dw,
                void *workspace, const ShareGather &gather);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_SHAREDVOCABULARY_H
