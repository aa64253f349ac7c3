// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What of an owned slice is parameters; the rest is padding.

#ifndef SHARDONNX_RUNTIME_PIECES_H
#define SHARDONNX_RUNTIME_PIECES_H

#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Manifest.h"
#include <functional>
#include <vector>

namespace shardonnx::rt {

// A part of the owned slice that is parameters of one kind (the rest is
// padding, which nobody writes): the optimizer and the norm go over these.
struct Piece {
  int64_t begin = 0, length = 0; // in the owned slice
  bool decay = true;
};

std::vector<Piece>
piecesOf(const Manifest::Unit &unit, const Interval &owned,
         const std::function<bool(const std::string &)> &noDecay);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_PIECES_H
