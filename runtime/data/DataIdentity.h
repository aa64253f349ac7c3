// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What tells one training set from another: ranks compare it with each other,
// and a run that goes on with what its checkpoint was trained on.

#ifndef SHARDONNX_RUNTIME_DATAIDENTITY_H
#define SHARDONNX_RUNTIME_DATAIDENTITY_H

#include "DataSource.h"
#include <cstdint>

namespace shardonnx::rt {

/// Of the number of samples and of some of them.
struct DataIdentity {
  int64_t samples = 0;
  uint64_t hash = 0;
  int64_t sequence = 0; // tokens of a sample; 0: there are none, or not known
};
DataIdentity identityOf(DataSource &data, const Manifest &manifest);

/// How they differ; empty: they do not.
std::string differenceOf(const DataIdentity &theirs, const DataIdentity &ours);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_DATAIDENTITY_H
