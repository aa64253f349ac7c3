// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the elements of a rank's part of a parameter lie in the whole one,
// which is what files have and what random weights are drawn as. Of a
// vocabulary that the ranks do not divide the last one has rows that are no
// words: they are in no file, and zero.

#ifndef SHARDONNX_RUNTIME_PARAMPART_H
#define SHARDONNX_RUNTIME_PARAMPART_H

#include "shardonnx/runtime/Manifest.h"

namespace shardonnx::rt {

class ParamPart {
public:
  /// Of `parts` ranks, the one at `part`.
  ParamPart(const Manifest::Param &param, int64_t part, int64_t parts)
      : param(param), part(part), parts(parts) {}

  /// From index `at` of the part's dimension `dim` on, what lies side by side
  /// in the whole parameter, too; `whole` is -1 where that has nothing.
  SplitPart::Run runOf(int64_t dim, int64_t at) const {
    int64_t size = param.shape[static_cast<size_t>(dim)];
    if (!param.split || param.split->dim != dim)
      return {at, size - at};
    if (!isUneven())
      return splitPart().runOf(at);
    int64_t here = indicesHere();
    if (at >= here)
      return {-1, size - at};
    return {part * size + at, here - at};
  }

  /// Calls visit(at, whole, count) for elements [begin, end) of the part: from
  /// `at` on, `count` of them lie side by side at `whole`. Not for those that
  /// the whole parameter has not.
  template <typename Visit>
  void forRuns(int64_t begin, int64_t end, Visit visit) const {
    if (!param.split)
      return visit(begin, begin, end - begin);
    int64_t inner = 1;
    for (auto i = static_cast<size_t>(param.split->dim) + 1;
         i < param.shape.size(); ++i)
      inner *= param.shape[i];
    if (isUneven())
      return forUneven(inner, begin, end, visit);
    splitPart().forRuns(inner, begin, end, visit);
  }

private:
  bool isUneven() const { return param.split->size() % parts != 0; }
  int64_t splitSize() const {
    return param.shape[static_cast<size_t>(param.split->dim)];
  }
  // Of the split dimension, how many indices of the part are the whole's, too.
  int64_t indicesHere() const {
    int64_t mine = splitSize(), rest = param.split->size() - part * mine;
    return rest < mine ? rest : mine;
  }

  template <typename Visit>
  void forUneven(int64_t inner, int64_t begin, int64_t end, Visit visit) const {
    int64_t row = splitSize() * inner, here = indicesHere() * inner;
    for (int64_t at = begin; at < end;) {
      int64_t place = at % row, before = at - place;
      int64_t last = before + here < end ? before + here : end;
      if (at < last)
        visit(at,
              before / row * param.split->size() * inner + part * row + place,
              last - at);
      at = before + row;
    }
  }

  SplitPart splitPart() const {
    return {param.split->sections.data(), param.split->sections.size(), part,
            parts};
  }

  const Manifest::Param &param;
  int64_t part, parts;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_PARAMPART_H
