// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A rank whose files differ from the others' would train on samples that nobody
// asked for, and nothing would tell: so the ranks compare what they read.

#ifndef SHARDONNX_RUNTIME_SAMEDATA_H
#define SHARDONNX_RUNTIME_SAMEDATA_H

#include "../comm/Exchange.h"
#include "../data/DataIdentity.h"
#include <string>

namespace shardonnx::rt {

/// Every rank calls it in the same order. Rank 0 throws Error for all.
void requireSameData(Exchange &exchange, int rank, const std::string &option,
                     const DataIdentity &mine);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_SAMEDATA_H
