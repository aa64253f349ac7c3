// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See SameData.h.

#include "SameData.h"
#include "../support/Error.h"
#include <cstring>

namespace shardonnx::rt {

void requireSameData(Exchange &exchange, int rank, const std::string &option,
                     const DataIdentity &mine) {
  std::string bytes(reinterpret_cast<const char *>(&mine), sizeof(mine));
  std::vector<std::string> all = exchange.allGather(bytes);
  if (rank != 0)
    return;
  for (size_t r = 0; r < all.size(); ++r) {
    DataIdentity theirs;
    if (all[r].size() != sizeof(theirs))
      continue;
    std::memcpy(&theirs, all[r].data(), sizeof(theirs));
    std::string how = differenceOf(theirs, mine);
    if (how.empty())
      continue;
    fail("rank ", r, " (host ", exchange.hostOf(static_cast<int>(r)),
         ") finds other data at ", option, " than rank 0 (", how,
         "): give all ranks the same files");
  }
}

} // namespace shardonnx::rt
