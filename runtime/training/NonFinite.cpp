// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See NonFinite.h.

#include "NonFinite.h"
#include "../support/Convert.h"
#include "../support/Error.h"
#include "shardonnx/runtime/GatherCodes.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace shardonnx::rt {
namespace {

// Units in the order in which the program reduces them, then any others.
std::vector<size_t> orderOfReductions(const Manifest &m) {
  std::vector<size_t> order;
  auto add = [&](size_t unit) {
    if (std::find(order.begin(), order.end(), unit) == order.end())
      order.push_back(unit);
  };
  for (const Manifest::Function &function : m.functions)
    for (const Manifest::Collective &call : function.collectives)
      if (call.op == "reduce_start" && call.unit >= 0)
        add(static_cast<size_t>(call.unit));
  for (size_t unit = 0; unit < m.units.size(); ++unit)
    add(unit);
  return order;
}

// How many of the owned gradients of a parameter are not finite, and the first.
struct Found {
  int64_t count = 0, first = 0; // first: in the parameter
  float value = 0;
};

Found search(Engine &engine, size_t unit, const Manifest::Param &param) {
  constexpr int64_t kPiece = 1 << 16;
  Interval owned = engine.owned(unit, /*trainable=*/true);
  int64_t begin = std::max(owned.begin, param.offset);
  int64_t end = std::min(owned.end, param.offset + param.elements());
  std::vector<float> values(kPiece);
  Found found;
  for (int64_t at = begin; at < end; at += kPiece) {
    int64_t count = std::min(kPiece, end - at);
    engine.readReduced(unit, at, values.data(), count);
    for (int64_t i = 0; i < count; ++i) {
      if (std::isfinite(values[static_cast<size_t>(i)]))
        continue;
      if (found.count++ == 0) {
        found.first = at + i - param.offset;
        found.value = values[static_cast<size_t>(i)];
      }
    }
  }
  return found;
}

// What --gather-dtype makes of the weight at an element that this rank owns:
// its block's scale.
std::string describeScale(Engine &engine, size_t unit, int64_t at) {
  GatherDtype type = engine.manifest.units[unit].gatherType;
  // Where its tensor has one for all, the owner of a part does not know it.
  if (type == GatherDtype::Param || type == GatherDtype::BF16 ||
      engine.manifest.units[unit].inCodes())
    return "";
  ShxDType dtype = engine.manifest.units[unit].masterType;
  int64_t begin = at / kStateBlock * kStateBlock;
  Interval block{begin, std::min(begin + kStateBlock,
                                 engine.owned(unit, /*trainable=*/true).end)};
  std::vector<uint8_t> bytes;
  engine.snapshot();
  engine.read(unit, StateArray::Master, block,
              [&](const uint8_t *piece, int64_t count) {
                bytes.insert(bytes.end(), piece, piece + count);
              });
  std::vector<float> weights(static_cast<size_t>(block.size()));
  widen(dtype, weights.data(), bytes.data(), block.size());
  uint32_t largest = 0;
  for (float weight : weights)
    largest = std::max(largest, floatBits(std::fabs(weight)));
  uint8_t exponent = gatherExponent(type == GatherDtype::F8, largest);
  if (exponent == kScaleIsNaN)
    return ", where a weight is not finite either";
  return concat(", where weights are gathered in ", spell(type),
                " with a scale of 2^", exponent - kScaleBias,
                ", the largest being ", floatOfBits(largest));
}

std::string describe(const StepResult &result) {
  return concat("loss ", std::isfinite(result.loss) ? "finite" : "not finite",
                ", gradient norm ",
                std::isfinite(result.gradNorm) ? "finite" : "not finite");
}

// The rank that speaks ends the others.
[[noreturn]] void waitForTheEnd(Exchange &exchange) {
  exchange.barrier(Activity::End);
  std::abort();
}

int64_t ignoredLabel(const Manifest &manifest) {
  for (const Manifest::Input &input : manifest.inputs)
    if (input.name == manifest.loss.input)
      return input.ignoredLabel;
  return kIgnoredLabel;
}

} // namespace

NonFinite findNonFinite(Engine &engine) {
  const Manifest &m = engine.manifest;
  std::vector<size_t> order = orderOfReductions(m);
  for (size_t place = 0; place < order.size(); ++place) {
    const Manifest::Unit &unit = m.units[order[place]];
    for (const Manifest::Param &param : unit.params) {
      if (!param.trainable)
        continue;
      Found found = search(engine, order[place], param);
      if (found.count > 0)
        return {place, concat("the gradient of '", param.name, "' in unit '",
                              unit.name, "' is not finite in ", found.count,
                              found.count == 1 ? " element" : " elements",
                              " on rank ", engine.rank(), ", the first (",
                              std::isnan(found.value) ? "NaN" : "infinity",
                              ") at ", found.first,
                              describeScale(engine, order[place],
                                            param.offset + found.first))};
    }
  }
  return {};
}

std::string findInInputs(const Manifest &manifest, DataSource &data,
                         const std::vector<int64_t> &samples) {
  for (size_t i = 0; i < manifest.inputs.size(); ++i) {
    const Manifest::Input &input = manifest.inputs[i];
    if (!wantsFloat(input) || input.kind == InputKind::Random)
      continue;
    int64_t count = rowElements(input);
    std::vector<uint8_t> row(
        static_cast<size_t>(count * dtypeBytes(input.dtype)));
    std::vector<float> values(static_cast<size_t>(count));
    for (int64_t sample : samples) {
      data.read(sample, i, row.data());
      widen(input.dtype, values.data(), row.data(), count);
      for (int64_t at = 0; at < count; ++at) {
        float value = values[static_cast<size_t>(at)];
        if (std::isnan(value) || value == INFINITY)
          return concat("input '", input.name, "' of sample ", sample, " has ",
                        std::isnan(value) ? "NaN" : "infinity", " at position ",
                        at, " of its row");
      }
    }
  }
  return "";
}

void stopAtNonFinite(Engine &engine, Exchange &exchange, int64_t step,
                     const StepResult &result, const std::string &inputs) {
  NonFinite mine = findNonFinite(engine);
  long place = static_cast<long>(mine.order);
  std::string remedy = "give a smaller --lr, longer --warmup or other data, or";
  if (std::isfinite(result.gradNorm)) // as a label that is no class leaves it
    remedy = "where the graph computes labels, one may be no class: mend that, "
             "or " +
             remedy;
  if (!inputs.empty()) {
    mine.text = inputs;
    place = -1;
    remedy = "mend the data, or";
  }
  std::vector<std::string> all = exchange.allGather(
      mine.text.empty() ? "" : concat(place, ' ', mine.text));
  size_t speaker = 0;
  long least = 0;
  for (size_t r = 0; r < all.size(); ++r) {
    long order = std::strtol(all[r].c_str(), nullptr, 10);
    if (!all[r].empty() && (all[speaker].empty() || order < least)) {
      speaker = r;
      least = order;
    }
  }
  if (static_cast<int>(speaker) != engine.rank())
    waitForTheEnd(exchange);
  fail("step ", step, ": ", describe(result),
       mine.text.empty() ? "" : "; " + mine.text, "; ", remedy,
       " leave such steps out with --on-nonfinite=skip");
}

void stopAtNoLabels(Engine &engine, Exchange &exchange, int64_t step) {
  if (engine.rank() != 0)
    waitForTheEnd(exchange);
  fail("step ", step, ": loss not finite: none of its labels counts, all are ",
       ignoredLabel(engine.manifest),
       "; give other data, or leave such steps out with --on-nonfinite=skip");
}

} // namespace shardonnx::rt
