// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See SameData.h.

#include "SameData.h"
#include "../support/Error.h"
#include <algorithm>
#include <cstring>

namespace shardonnx::rt {
namespace {

constexpr int64_t kSamplesToRead = 16; // evenly spread, the first and last too

} // namespace

DataIdentity identityOf(DataSource &data, const Manifest &manifest) {
  DataIdentity identity;
  identity.samples = data.samples();
  std::string bytes;
  for (int64_t i = 0; i < std::min(kSamplesToRead, identity.samples); ++i) {
    int64_t last = std::min(kSamplesToRead, identity.samples) - 1;
    int64_t sample = last > 0 ? (identity.samples - 1) / last * i : 0;
    for (size_t input = 0; input < manifest.inputs.size(); ++input) {
      const Manifest::Input &in = manifest.inputs[input];
      std::string row(
          static_cast<size_t>(rowElements(in) * dtypeBytes(in.dtype)), '\0');
      try {
        data.read(sample, input, &row[0]);
      } catch (const Error &e) { // who trains on it will say so
        row = e.what();
      }
      bytes += row;
    }
  }
  identity.hash = fnv1a(bytes);
  return identity;
}

void requireSameData(Exchange &exchange, int rank, const std::string &option,
                     const DataIdentity &mine) {
  std::string bytes(reinterpret_cast<const char *>(&mine), sizeof(mine));
  std::vector<std::string> all = exchange.allGather(bytes);
  if (rank != 0)
    return;
  for (size_t r = 0; r < all.size(); ++r) {
    DataIdentity theirs;
    if (all[r].size() != sizeof(theirs) || all[r] == bytes)
      continue;
    std::memcpy(&theirs, all[r].data(), sizeof(theirs));
    std::string how =
        theirs.samples == mine.samples
            ? "the samples differ"
            : concat(theirs.samples, " samples there, ", mine.samples, " here");
    fail("rank ", r, " (host ", exchange.hostOf(static_cast<int>(r)),
         ") finds other data at ", option, " than rank 0 (", how,
         "): give all ranks the same files");
  }
}

} // namespace shardonnx::rt
