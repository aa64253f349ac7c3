// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// f32 master weights beside the bf16 that products read: that is their upper
// half, so a GPU keeps only what it lacks. 4 bytes a parameter, not 6, and the
// update moves 8 of them, not 10.
//
// The upper half is the master rounded to nearest even, as everywhere. The
// lower one is the master's bits less those of the upper one, a signed number
// of 16 bits. One value in 2^17 lies above its upper half by one more than
// that holds: a tie that is rounded down. It loses its last bit.

#ifndef SHARDONNX_RUNTIME_MASTERHALVES_H
#define SHARDONNX_RUNTIME_MASTERHALVES_H

#include "shardonnx/runtime/Manifest.h"
#include <algorithm>
#include <cstdint>
#include <cstring>

namespace shardonnx {

/// What of its units' types decides; `gathersParams`: no unit of this type
/// gathers its parameters in another one, rounded from whole masters.
constexpr bool keepsMasterHalves(ShxDType master, ShxDType param,
                                 bool gathersParams) {
  return master == SHX_F32 && param == SHX_BF16 && gathersParams;
}
bool keepsMasterHalves(const Manifest &manifest, const Manifest::Unit &unit);

/// Of an element of the unit: what the update reads and writes as the master,
/// and what of lowPrecisionBytes it reads to have it whole.
int64_t masterBytes(const Manifest &manifest, const Manifest::Unit &unit);
int64_t upperHalfBytes(const Manifest &manifest, const Manifest::Unit &unit);

inline int16_t lowerHalf(float master, uint16_t upper) {
  uint32_t bits;
  std::memcpy(&bits, &master, sizeof(bits));
  auto rest = static_cast<int32_t>(bits - (uint32_t(upper) << 16));
  return static_cast<int16_t>(std::clamp<int32_t>(rest, INT16_MIN, INT16_MAX));
}

inline float joinHalves(uint16_t upper, int16_t lower) {
  uint32_t bits = (uint32_t(upper) << 16) + uint32_t(int32_t(lower));
  float master;
  std::memcpy(&master, &bits, sizeof(master));
  return master;
}

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_MASTERHALVES_H
