// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See RowLengths.h.

#include "RowLengths.h"
#include "../support/Error.h"
#include <algorithm>
#include <cmath>

namespace shardonnx::rt {
namespace {

std::string withoutEnd(const std::string &name, const std::string &end) {
  return name.substr(0, name.size() - end.size());
}

} // namespace

RowLengths::RowLengths(const Manifest::Param &weight, bool fanInFanOut)
    : weight(weight), columns(weight.shape.back()), fanInFanOut(fanInFanOut),
      squares(static_cast<size_t>(weight.shape[fanInFanOut ? 1 : 0])) {
  if (weight.packed)
    packed.emplace(weight);
}

void RowLengths::add(const float *values, int64_t count) {
  if (packed)
    packed->add(values, count);
  else
    this->count(values, count);
}

void RowLengths::count(const float *values, int64_t count) {
  for (int64_t i = 0; i < count; ++i, ++at) {
    double value = static_cast<double>(values[i]);
    int64_t row = fanInFanOut ? at % columns : at / columns;
    squares[static_cast<size_t>(row)] += value * value;
  }
}

std::vector<float> RowLengths::finish() {
  if (packed) {
    std::vector<float> decoded = unpackWeight(weight, packed->finish().data());
    count(decoded.data(), weight.elements());
  }
  std::vector<float> lengths;
  for (double square : squares)
    lengths.push_back(static_cast<float>(std::sqrt(square)));
  return lengths;
}

UnitParam weightBeside(const Manifest &manifest,
                       const Manifest::Param &lengths) {
  std::string wanted = withoutEnd(lengths.name, kLoraMagnitude) + kLoraWeight;
  for (size_t unit = 0; unit < manifest.units.size(); ++unit)
    for (const Manifest::Param &param : manifest.units[unit].params) {
      std::vector<std::string> names = param.names();
      if (param.shape.size() == 2 &&
          std::find(names.begin(), names.end(), wanted) != names.end())
        return {unit, &param};
    }
  fail("the manifest has no weight for '", lengths.name, "'");
}

bool hasFanInFanOut(const Manifest &manifest, const Manifest::Param &weight) {
  const std::vector<std::string> &modules = manifest.lora->fanInFanOut;
  for (const std::string &name : weight.names())
    if (std::find(modules.begin(), modules.end(),
                  withoutEnd(name, kLoraWeight)) != modules.end())
      return true;
  return false;
}

} // namespace shardonnx::rt
