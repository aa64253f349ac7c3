// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See ProcessMemory.h.

#include "ProcessMemory.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace shardonnx::rt {

int64_t proportionalSetBytes() {
  std::FILE *file = std::fopen("/proc/self/smaps_rollup", "re");
  if (!file)
    return 0;
  char line[256];
  long long kib = 0;
  while (std::fgets(line, sizeof(line), file))
    if (std::strncmp(line, "Pss:", 4) == 0) {
      kib = std::strtoll(line + 4, nullptr, 10);
      break;
    }
  std::fclose(file);
  return kib * 1024;
}

} // namespace shardonnx::rt
