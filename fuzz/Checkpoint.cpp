// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A checkpoint's folder of any content. The input is two bytes with the length
// of index.json, the index, and then the one rank's file. Where it opens, all
// that its index describes must be readable.

#include "../runtime/checkpoint/Reader.h"
#include "../runtime/support/Error.h"
#include "Scratch.h"

#include <algorithm>

using namespace shardonnx;

namespace {

void readSection(rt::CheckpointReader &reader, size_t unit, bool trainable) {
  constexpr int64_t kMost = 4096;
  const rt::Checkpoint &index = reader.index();
  int64_t length =
      trainable ? index.units[unit].length : index.units[unit].frozenLength;
  int64_t count = std::min(length, kMost);
  std::vector<float> values(static_cast<size_t>(count));
  for (rt::StateArray array :
       rt::arraysOf(trainable, index.optimizerStates(), index.optimizerType))
    for (int64_t begin : {int64_t(0), length - count}) {
      Interval stored = rt::storedInterval(array, {begin, begin + count},
                                           index.units[unit].matrixLength);
      reader.read(unit, array, stored.begin, stored.size(), values.data());
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static fuzz::Scratch scratch;
  if (size < 2)
    return 0;
  size_t length = std::min<size_t>(bytes[0] + 256 * bytes[1], size - 2);
  scratch.write(rt::kIndexName, bytes + 2, length);
  scratch.write("rank-0.safetensors", bytes + 2 + length, size - 2 - length);
  try {
    rt::CheckpointReader reader(scratch.folder);
    for (size_t unit = 0; unit < reader.index().units.size(); ++unit)
      for (bool trainable : {true, false})
        readSection(reader, unit, trainable);
    // What was read can be written, and read again.
    rt::parseIndex(rt::writeIndex(reader.index()), scratch.folder);
    reader.verify();
  } catch (const rt::Error &) {
  }
  return 0;
}
