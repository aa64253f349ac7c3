// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See PackedWeight.h.

#include "PackedWeight.h"
#include "shardonnx/runtime/Unpack.h"

namespace shardonnx::rt {

void PackedWeight::add(const float *values, int64_t count) {
  if (!packer)
    packer.emplace(param.packed->packing, param.rows(), param.columns());
  if (param.packed->transposed)
    whole.insert(whole.end(), values, values + count);
  else
    packer->add(values, count);
}

// Stored [columns, rows].
void PackedWeight::addTransposed() {
  auto rows = static_cast<size_t>(param.rows()),
       columns = static_cast<size_t>(param.columns());
  std::vector<float> row(columns);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c)
      row[c] = whole[c * rows + r];
    packer->add(row.data(), param.columns());
  }
  whole.clear();
}

std::vector<uint8_t> PackedWeight::finish() {
  if (!packer)
    return {};
  if (param.packed->transposed)
    addTransposed();
  return packer->finish();
}

void PackedWeight::writeTo(Engine &engine, size_t unit, const Interval &owned) {
  std::vector<uint8_t> bytes = finish();
  if (bytes.empty())
    return;
  int64_t element = dtypeBytes(engine.manifest.units[unit].paramType);
  engine.writeStored(unit, StateArray::Frozen, param.offset + owned.begin,
                     bytes.data() + owned.begin * element, owned.size());
}

std::vector<float> unpackWeight(const Manifest::Param &param,
                                const uint8_t *packed) {
  auto rows = static_cast<size_t>(param.rows()),
       columns = static_cast<size_t>(param.columns());
  std::vector<float> values(rows * columns);
  Unpacker unpacker(param.packed->packing, param.rows(), param.columns(),
                    packed);
  if (!param.packed->transposed) {
    unpacker.decode(0, param.elements(), values.data());
    return values;
  }
  std::vector<float> row(columns);
  for (size_t r = 0; r < rows; ++r) {
    auto at = static_cast<int64_t>(r * columns);
    unpacker.decode(at, at + param.columns(), row.data());
    for (size_t c = 0; c < columns; ++c)
      values[c * rows + r] = row[c];
  }
  return values;
}

} // namespace shardonnx::rt
