// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A packed weight on its way from its elements to a rank's slice. Every rank
// that owns some of it packs the whole, so the bytes are the same at any world
// size.

#ifndef SHARDONNX_RUNTIME_PACKEDWEIGHT_H
#define SHARDONNX_RUNTIME_PACKEDWEIGHT_H

#include "../support/Packer.h"
#include "Engine.h"
#include <optional>
#include <vector>

namespace shardonnx::rt {

/// Takes the elements of a parameter in order, as its shape has them.
class ElementSink {
public:
  virtual ~ElementSink() = default;
  virtual void add(const float *values, int64_t count) = 0;
};

class PackedWeight final : public ElementSink {
public:
  explicit PackedWeight(const Manifest::Param &param) : param(param) {}

  void add(const float *values, int64_t count) override;
  /// Empty where no element has come.
  std::vector<uint8_t> finish();
  /// Writes what is owned, in elements of the section; nothing where no
  /// element has come.
  void writeTo(Engine &engine, size_t unit, const Interval &owned);

private:
  void addTransposed();

  const Manifest::Param &param;
  std::optional<Packer> packer;
  std::vector<float> whole; // of a weight that is packed transposed
};

/// The elements of a packed weight, as the parameter's shape has them.
std::vector<float> unpackWeight(const Manifest::Param &param,
                                const uint8_t *packed);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_PACKEDWEIGHT_H
