// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the elements of a rank's part of a parameter lie in the whole one,
// which is what files have and what random weights are drawn as.

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
  /// in the whole parameter, too.
  SplitPart::Run runOf(int64_t dim, int64_t at) const {
    if (!param.split || param.split->dim != dim)
      return {at, param.shape[static_cast<size_t>(dim)] - at};
    return splitPart().runOf(at);
  }

  /// Calls visit(at, whole, count) for elements [begin, end) of the part: from
  /// `at` on, `count` of them lie side by side at `whole`.
  template <typename Visit>
  void forRuns(int64_t begin, int64_t end, Visit visit) const {
    if (!param.split)
      return visit(begin, begin, end - begin);
    int64_t inner = 1;
    for (auto i = static_cast<size_t>(param.split->dim) + 1;
         i < param.shape.size(); ++i)
      inner *= param.shape[i];
    splitPart().forRuns(inner, begin, end, visit);
  }

private:
  SplitPart splitPart() const {
    return {param.split->sections.data(), param.split->sections.size(), part,
            parts};
  }

  const Manifest::Param &param;
  int64_t part, parts;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_PARAMPART_H
