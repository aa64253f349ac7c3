// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Slices as --gather-dtype rounds and sends them, on the host. Counts are of
// elements from the begin of a block on.

#ifndef SHARDONNX_RUNTIME_GATHERIMAGE_H
#define SHARDONNX_RUNTIME_GATHERIMAGE_H

#include "shardonnx/runtime/GatherCodes.h"
#include <cstdint>

namespace shardonnx::rt {

/// to = what `from` becomes on its way, in another type or its own.
void roundAsGathered(GatherDtype type, ShxDType fromType, const uint8_t *from,
                     ShxDType toType, uint8_t *to, int64_t count);

/// gatherImageBytes of a slice, and back. No rounding where `slice` has been
/// rounded.
void encodeImage(GatherDtype type, ShxDType sliceType, const uint8_t *slice,
                 uint8_t *image, int64_t count);
void decodeImage(GatherDtype type, const uint8_t *image, ShxDType sliceType,
                 uint8_t *slice, int64_t count);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_GATHERIMAGE_H
