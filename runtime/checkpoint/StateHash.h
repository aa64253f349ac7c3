// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A hash of the whole training state that does not depend on who holds which
// part of it: the sum over elements of a well-mixed function of the parameter's
// name, the array, the element's index and its bits as f32.

#ifndef SHARDONNX_RUNTIME_CHECKPOINT_STATEHASH_H
#define SHARDONNX_RUNTIME_CHECKPOINT_STATEHASH_H

#include "Index.h"

namespace shardonnx::rt {

/// Of `bytes`, which hold elements from `begin` on of a unit's section in
/// `dtype`. What lies between parameters does not count.
class SectionHash {
public:
  SectionHash(const std::vector<Manifest::Param> &params, StateArray array,
              ShxDType dtype);
  uint64_t of(const uint8_t *bytes, int64_t begin, int64_t count) const;

private:
  struct Place {
    int64_t begin, end;
    uint64_t key;
  };
  std::vector<Place> places; // in order
  ShxDType dtype;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CHECKPOINT_STATEHASH_H
