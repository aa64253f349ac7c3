// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the text and the JSON of `shardonnx inspect` share.

#include "InspectReport.h"

namespace shardonnx {

Interval cutToParameter(Interval owned, const Manifest::Param &param) {
  int64_t begin = std::max(owned.begin, param.offset);
  int64_t end = std::min(owned.end, param.offset + param.elements());
  if (begin >= end)
    return {};
  return {begin - param.offset, end - param.offset};
}

std::string describeLoss(const Manifest &m) {
  switch (m.loss.denominator) {
  case Manifest::Denominator::Labels:
    return "mean over all labels of the step other than -100, over all ranks "
           "and microbatches";
  case Manifest::Denominator::Elements:
    return "mean over all elements of the step, over all ranks and "
           "microbatches";
  case Manifest::Denominator::Batches:
    return "an opaque scalar of the graph: averaged over ranks and "
           "microbatches";
  }
  return "";
}

int64_t countParameters(const Manifest::Unit &unit, bool trainable) {
  int64_t count = 0;
  for (const Manifest::Param &param : unit.params)
    if (param.trainable == trainable)
      count += param.elements();
  return count;
}

const char *dtypeName(ShxDType dtype) {
  switch (dtype) {
  case SHX_F32:
    return "f32";
  case SHX_BF16:
    return "bf16";
  case SHX_F16:
    return "f16";
  case SHX_I64:
    return "i64";
  case SHX_I32:
    return "i32";
  case SHX_I1:
    return "i1";
  }
  return "";
}

} // namespace shardonnx
