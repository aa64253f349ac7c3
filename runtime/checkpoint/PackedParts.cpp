// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See PackedParts.h.

#include "PackedParts.h"
#include "../core/PackedWeight.h"
#include "../core/ParamPart.h"
#include <algorithm>

namespace shardonnx::rt {

static bool hasSameParts(const Manifest &manifest,
                         const CheckpointReader &reader,
                         const Manifest::Param &param) {
  const Manifest::Param &stored = *reader.find(param.names()).param;
  return isSplitAlike(stored, param) &&
         (!param.split || reader.index().tensor == manifest.mesh.tensor());
}

bool hasSamePackings(const Manifest &manifest, const CheckpointReader &reader) {
  for (const Manifest::Unit &unit : manifest.units)
    for (const Manifest::Param &param : unit.params)
      if (param.packed && !hasSameParts(manifest, reader, param))
        return false;
  return true;
}

/// Bytes [begin, end) of a part of a packed weight.
static std::vector<uint8_t> readPart(CheckpointReader &reader,
                                     const CheckpointReader::Place &place,
                                     int64_t part, const Interval &bytes) {
  const Checkpoint::Unit &unit = reader.index().units[place.unit];
  int64_t section = part * unit.frozenLength + place.param->offset;
  std::vector<uint8_t> stored(static_cast<size_t>(bytes.size()));
  reader.readStored(place.unit, StateArray::Frozen,
                    section * dtypeBytes(unit.frozenType) + bytes.begin,
                    bytes.size(), stored.data());
  return stored;
}

std::vector<float> decodePacked(CheckpointReader &reader,
                                const CheckpointReader::Place &place) {
  const Manifest::Param &param = *place.param;
  int64_t element = dtypeBytes(reader.index().units[place.unit].frozenType);
  int64_t parts = param.split ? reader.index().tensor : 1;
  std::vector<float> whole(static_cast<size_t>(param.wholeElements()));
  for (int64_t part = 0; part < parts; ++part) {
    std::vector<float> values = unpackWeight(
        param,
        readPart(reader, place, part, {0, param.length() * element}).data());
    ParamPart(param, part, parts)
        .forRuns(0, param.elements(), [&](int64_t at, int64_t to, int64_t n) {
          std::copy_n(values.begin() + at, n, whole.begin() + to);
        });
  }
  return whole;
}

void loadPacked(Engine &engine, CheckpointReader &reader, size_t unit,
                const Manifest::Param &param, const Interval &owned) {
  CheckpointReader::Place place = reader.find(param.names());
  if (hasSameParts(engine.manifest, reader, param)) {
    int64_t element = dtypeBytes(engine.manifest.units[unit].paramType);
    int64_t part = param.split ? engine.tensorRank() : 0;
    std::vector<uint8_t> bytes = readPart(
        reader, place, part, {owned.begin * element, owned.end * element});
    engine.writeStored(unit, StateArray::Frozen, param.offset + owned.begin,
                       bytes.data(), owned.size());
    return;
  }
  std::vector<float> whole = decodePacked(reader, place);
  PackedWeight weight(param);
  ParamPart(param, engine.tensorRank(), engine.tensor())
      .forRuns(0, param.elements(), [&](int64_t, int64_t from, int64_t n) {
        weight.add(whole.data() + from, n);
      });
  weight.writeTo(engine, unit, owned);
}

} // namespace shardonnx::rt
