// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// DoRA's first values: the lengths of the rows of a module's weight [out, in].

#ifndef SHARDONNX_RUNTIME_ROWLENGTHS_H
#define SHARDONNX_RUNTIME_ROWLENGTHS_H

#include "OwnedRange.h"
#include <optional>

namespace shardonnx::rt {

class RowLengths final : public ElementSink {
public:
  /// `fanInFanOut`: the weight lies [in, out].
  RowLengths(const Manifest::Param &weight, bool fanInFanOut);
  void add(const float *values, int64_t count) override;
  /// Once all have come; of a packed weight, those of what it decodes to.
  std::vector<float> finish();

private:
  void count(const float *values, int64_t count);

  const Manifest::Param &weight;
  std::optional<PackedWeight> packed;
  int64_t columns, at = 0;
  bool fanInFanOut;
  std::vector<double> squares;
};

struct UnitParam {
  size_t unit;
  const Manifest::Param *param;
};
/// The weight of the module that has these lengths.
UnitParam weightBeside(const Manifest &manifest,
                       const Manifest::Param &lengths);
bool hasFanInFanOut(const Manifest &manifest, const Manifest::Param &weight);

/// Calls read(OwnedRange) for the weight of each module whose lengths this rank
/// owns some of, all of its elements, and writes those.
template <typename Read> void writeRowLengths(Engine &engine, Read read) {
  forOwned(engine, [&](const OwnedRange &target) {
    if (target.param->draw != DrawKind::RowLengths)
      return;
    auto [unit, weight] = weightBeside(engine.manifest, *target.param);
    RowLengths lengths(*weight, hasFanInFanOut(engine.manifest, *weight));
    read(OwnedRange{&engine, unit, weight, 0, weight->elements(), &lengths});
    std::vector<float> values = lengths.finish();
    target.write(target.begin, values.data() + target.begin,
                 target.end - target.begin);
  });
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_ROWLENGTHS_H
