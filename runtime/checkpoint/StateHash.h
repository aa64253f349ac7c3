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

/// Of `bytes`, which hold elements from `begin` on of a unit's sections in
/// `dtype`: of `tensor` parts, each of `length` elements, behind one another
/// (StoredParts.h). What lies between parameters does not count, so the hash is
/// that of the whole parameters, however they are split; but for scales and
/// packed weights, whose blocks are those of the parts.
class SectionHash {
public:
  SectionHash(const std::vector<Manifest::Param> &params, StateArray array,
              ShxDType dtype, int64_t matrixLength = 0, int64_t tensor = 1,
              int64_t length = 0);
  uint64_t of(const uint8_t *bytes, int64_t begin, int64_t count) const;

private:
  void addParts(const Manifest::Param &param, StateArray array, uint64_t key,
                int64_t tensor, int64_t length);

  struct Place {
    int64_t begin, end;
    uint64_t key;
    int64_t index; // of the first element in the whole parameter
  };
  std::vector<Place> places; // in order
  ShxDType dtype;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CHECKPOINT_STATEHASH_H
