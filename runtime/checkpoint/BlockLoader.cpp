// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See BlockLoader.h.

#include "BlockLoader.h"
#include "../core/ParamPart.h"
#include "shardonnx/runtime/BlockCodes.h"
#include <algorithm>

namespace shardonnx::rt {
namespace {

constexpr int64_t kChunk = 1 << 18; // elements at a time: whole blocks
static_assert(kChunk % kStateBlock == 0, "blocks are not cut");

/// Some blocks of a moment of a unit.
class BlockLoader {
public:
  BlockLoader(Engine &engine, CheckpointReader &reader, size_t unit,
              StateArray moment, bool same)
      : engine(engine), reader(reader), unit(unit), moment(moment), same(same),
        map(moment == StateArray::Moment1 ? kSignedCodes : kUnsignedCodes) {}

  void load(const Interval &part) {
    interval = part;
    codes.assign(static_cast<size_t>(part.size()), map.codeOf(0));
    scales.assign(static_cast<size_t>(stateBlocks(part.size())), 0);
    if (same)
      copy();
    else
      encode();
    engine.writeStored(unit, moment, part.begin,
                       reinterpret_cast<const uint8_t *>(codes.data()),
                       part.size());
    engine.write(unit, scalesOf(moment), part.begin / kStateBlock,
                 scales.data(), static_cast<int64_t>(scales.size()));
  }

private:
  // Calls visit(param, place, begin, end): elements [begin, end) of this rank's
  // part of a parameter are in the interval.
  template <typename Visit> void forParams(Visit visit) const {
    for (const Manifest::Param &param : engine.manifest.units[unit].params) {
      int64_t begin = std::max(param.offset, interval.begin);
      int64_t end = std::min(param.offset + param.length(), interval.end);
      if (!param.trainable || begin >= end)
        continue;
      visit(param, reader.find(param.names()), begin - param.offset,
            end - param.offset);
    }
  }

  void copy() {
    forParams([&](const Manifest::Param &param,
                  const CheckpointReader::Place &place, int64_t begin,
                  int64_t end) {
      int64_t at = param.offset + begin - interval.begin, count = end - begin;
      int64_t section = reader.index().units[place.unit].sectionLength(
          /*isTrainable=*/true);
      int64_t from = sectionBegin(moment, engine.tensorRank(), section) +
                     place.param->offset + begin;
      reader.readStored(place.unit, moment, from, count,
                        reinterpret_cast<uint8_t *>(&codes[size_t(at)]));
      int64_t block = from / kStateBlock;
      reader.read(place.unit, scalesOf(moment), block,
                  stateBlocks(from + count) - block,
                  &scales[size_t(at / kStateBlock)]);
    });
  }

  void encode() {
    std::vector<float> values(codes.size());
    forParams([&](const Manifest::Param &param,
                  const CheckpointReader::Place &place, int64_t begin,
                  int64_t end) {
      int64_t before = param.offset - interval.begin;
      auto readRun = [&](int64_t to, int64_t whole, int64_t count) {
        reader.forStored(place, {whole, whole + count},
                         [&](int64_t from, int64_t at, int64_t n) {
                           reader.read(
                               place.unit, moment, from, n,
                               &values[size_t(before + to + at - whole)]);
                         });
      };
      ParamPart(param, engine.tensorRank(), engine.tensor())
          .forRuns(begin, end, readRun);
    });
    for (size_t i = 0; i < values.size(); ++i) {
      float &scale = scales[i / kStateBlock];
      scale = std::max(scale, std::fabs(values[i]));
    }
    for (size_t i = 0; i < values.size(); ++i)
      if (float scale = scales[i / kStateBlock]; scale > 0)
        codes[i] = map.codeOf(values[i] / scale);
  }

  Engine &engine;
  CheckpointReader &reader;
  size_t unit;
  StateArray moment;
  bool same;
  const BlockCodes &map;
  Interval interval;
  std::vector<int8_t> codes;
  std::vector<float> scales;
};

} // namespace

bool hasSameBlocks(const Manifest &manifest, const CheckpointReader &reader) {
  if (reader.index().tensor != manifest.mesh.tensor())
    return false;
  for (const Manifest::Unit &unit : manifest.units)
    for (const Manifest::Param &param : unit.params) {
      const Manifest::Param *stored = reader.find(param.names()).param;
      if (param.trainable &&
          ((stored->offset - param.offset) % kStateBlock != 0 ||
           !isSplitAlike(*stored, param)))
        return false;
    }
  return reader.index().optimizerType == SHX_I8;
}

void loadBlocks(Engine &engine, CheckpointReader &reader) {
  const Manifest &manifest = engine.manifest;
  bool same = hasSameBlocks(manifest, reader);
  for (size_t unit = 0; unit < manifest.units.size(); ++unit)
    for (StateArray moment :
         arraysOf(/*trainable=*/true, manifest.optimizerStates(), SHX_F32)) {
      if (!isMoment(moment))
        continue;
      BlockLoader loader(engine, reader, unit, moment, same);
      Interval owned = engine.owned(unit, /*trainable=*/true);
      for (int64_t at = owned.begin; at < owned.end; at += kChunk)
        loader.load({at, std::min(at + kChunk, owned.end)});
    }
}

} // namespace shardonnx::rt
