// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The end of a run whose loss or gradients are not finite: which parameter's
// gradient it is, in which unit, on which rank.

#ifndef SHARDONNX_RUNTIME_NONFINITE_H
#define SHARDONNX_RUNTIME_NONFINITE_H

#include "../comm/Exchange.h"
#include "../core/Engine.h"
#include "../data/DataSource.h"
#include <string>
#include <vector>

namespace shardonnx::rt {

/// What of the reduced gradients that this rank owns is not finite, in words;
/// "" if all of them are. Of several parameters the one whose unit is reduced
/// first, nearest to the loss: backward carries a NaN from there to the others.
/// `order` is the unit's place in that order.
struct NonFinite {
  size_t order = 0;
  std::string text;
};
NonFinite findNonFinite(Engine &engine);

/// A number among what these samples feed the program that explains a loss that
/// is not finite, in words: NaN or infinity, but not the minus infinity of
/// masks that are added; "" if there is none.
std::string findInInputs(const Manifest &manifest, DataSource &data,
                         const std::vector<int64_t> &samples);

/// Every rank calls it. One of them throws, the others wait for the end: one
/// whose `inputs` (findInInputs) say something before all others.
[[noreturn]] void stopAtNonFinite(Engine &engine, Exchange &exchange,
                                  int64_t step, const StepResult &result,
                                  const std::string &inputs);

/// The same for a step in which no label counts: 0 / 0, as PyTorch has it.
[[noreturn]] void stopAtNoLabels(Engine &engine, Exchange &exchange,
                                 int64_t step);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_NONFINITE_H
