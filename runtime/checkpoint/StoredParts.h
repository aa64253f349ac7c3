// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a checkpoint has the elements of a whole parameter. The sections of a
// unit that the ranks of a tensor group have, each its part of split
// parameters, lie behind one another; of parameters that are whole in each, the
// first counts.

#ifndef SHARDONNX_RUNTIME_CHECKPOINT_STOREDPARTS_H
#define SHARDONNX_RUNTIME_CHECKPOINT_STOREDPARTS_H

#include "Index.h"

namespace shardonnx::rt {

/// Calls visit(begin, at, count): elements [at, at + count) of the whole
/// parameter lie in the unit's sections, each of `length` elements, from
/// `begin` on. With them all of [interval.begin, interval.end).
template <typename Visit>
void forStored(const Manifest::Param &param, int64_t tensor, int64_t length,
               const Interval &interval, Visit visit) {
  if (!param.split)
    return visit(param.offset + interval.begin, interval.begin,
                 interval.size());
  int64_t inner = 1, size = param.split->size();
  int64_t each = param.shape[static_cast<size_t>(param.split->dim)];
  for (auto i = static_cast<size_t>(param.split->dim) + 1;
       i < param.shape.size(); ++i)
    inner *= param.shape[i];
  for (int64_t at = interval.begin; at < interval.end;) {
    int64_t row = at / (size * inner), place = at / inner % size;
    int64_t before = 0, mine = 1; // of the part, before its share of a section
    for (int64_t section : param.split->sections) {
      mine = (section + tensor - 1) / tensor;
      if (place < section)
        break;
      place -= section;
      before += mine;
    }
    int64_t part = place / mine, within = place % mine;
    int64_t side = std::min(mine - within, size - before * tensor - place);
    int64_t count = std::min(side * inner - at % inner, interval.end - at);
    visit(part * length + param.offset +
              (row * each + before + within) * inner + at % inner,
          at, count);
    at += count;
  }
}

/// Whether two parameters are split over a tensor axis in the same way.
inline bool isSplitAlike(const Manifest::Param &a, const Manifest::Param &b) {
  if (!a.split || !b.split)
    return !a.split && !b.split;
  return a.split->dim == b.split->dim && a.split->sections == b.split->sections;
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CHECKPOINT_STOREDPARTS_H
