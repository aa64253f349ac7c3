// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arrays whose numbers nobody draws: masks, waves, positions, ALiBi's slopes.

#ifndef SHARDONNX_LIB_IMPORT_KNOWNTABLES_H
#define SHARDONNX_LIB_IMPORT_KNOWNTABLES_H

#include "Parameters.h"

namespace shardonnx {

/// Whether a matrix, or an array of more axes, has nothing but ones and zeros,
/// or zeros and numbers that hide scores, and some of both: a mask, a table of
/// one-hot rows. False where the bytes cannot be read.
bool isMask(const Initializer &init, llvm::StringRef modelPath);

/// Whether the columns of a table are sines and cosines of the row, as those of
/// positions and rotary embeddings; rows of zeros, as that of a padding_idx, do
/// not count. Progressions are none: people draw parameters so.
bool isWaves(const Initializer &init, llvm::StringRef modelPath);

/// A table of another kind: a row of positions 0, 1, 2, …, distances between
/// two, slopes of ALiBi or what they make of positions.
bool isPositions(const Initializer &init, llvm::StringRef modelPath);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_KNOWNTABLES_H
