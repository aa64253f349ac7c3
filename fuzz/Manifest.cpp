// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The manifest of an executable that was damaged: it is read or refused with a
// reason, and what was read has sizes that can be computed with.

#include "shardonnx/runtime/Manifest.h"

#include <cstdlib>

using namespace shardonnx;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  std::string error;
  std::string_view text(reinterpret_cast<const char *>(bytes), size);
  std::optional<Manifest> manifest = parseManifest(text, error);
  if (!manifest) {
    if (error.empty())
      std::abort();
    return 0;
  }
  int64_t sum = manifest->tokensPerMicrobatch();
  for (const Manifest::Input &input : manifest->inputs)
    sum |= input.bytes();
  for (const Manifest::Unit &unit : manifest->units)
    sum |= unit.gatheredBytes() | unit.gradientBytes();
  if (sum < 0)
    std::abort();
  return 0;
}
