// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The index of a checkpoint: what was trained, how far, and which rank's file
// holds which interval of which unit. docs/checkpoints.md tells the format.

#ifndef SHARDONNX_RUNTIME_CHECKPOINT_INDEX_H
#define SHARDONNX_RUNTIME_CHECKPOINT_INDEX_H

#include "../core/TrainState.h"
#include "../data/DataIdentity.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Manifest.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardonnx::rt {

constexpr const char *kIndexName = "index.json";

struct Checkpoint {
  struct File {
    std::string name; // in the checkpoint's folder
    int64_t bytes = 0;
    uint64_t hash = 0; // ByteHash.h, from version 2 on
  };
  /// What of a unit's section a file holds.
  struct Slice {
    size_t file = 0;
    Interval interval;
  };
  struct Unit {
    std::string name;
    int64_t length = 0, frozenLength = 0; // elements, padding among them
    int64_t matrixLength = 0; // the first so many have no second moment
    ShxDType frozenType = SHX_F32;
    std::vector<Manifest::Param> params;
    /// In order, each element once: of all parts' sections (StoredParts.h).
    std::vector<Slice> trainable, frozen;
    int64_t sectionLength(bool isTrainable) const {
      return isTrainable ? length : frozenLength;
    }
    bool isMatrix(const Manifest::Param &param) const {
      return param.trainable && param.offset < matrixLength;
    }
  };
  /// 1: neither the index nor its files are under a hash, only the tensors.
  int version = 2;
  std::string id; // of this save: its files carry it too
  std::string program, strategy, modelPath, modelSha256;
  Optimizer optimizer = Optimizer::AdamW;
  ShxDType optimizerType = SHX_F32; // of its state
  ShxDType masterType = SHX_F32;    // of units whose frozenType it is
  std::optional<Lora> lora;         // adapters among the parameters
  int worldSize = 0;
  int64_t tensor = 1; // ranks over which parameters are split
  TrainState state;
  uint64_t seed = 0;
  bool shuffle = false;
  std::optional<DataIdentity> data; // that was trained on
  /// StateHash.h, of masters and moments, and of frozen parameters.
  uint64_t trainableHash = 0, frozenHash = 0;
  std::vector<File> files;
  std::vector<Unit> units;

  uint64_t hash() const { return trainableHash + frozenHash; }
  int optimizerStates() const { return statesOf(optimizer); }
};

/// What frozen weights are kept in; of a unit that is gathered in 8 bits, whose
/// masters are rounded to it.
inline ShxDType frozenTypeOf(const Manifest::Unit &unit) {
  return unit.inCodes() ? SHX_BF16 : unit.paramType;
}

/// What arrays of a unit are stored as.
struct StoredTypes {
  ShxDType frozen, master, optimizer;
  constexpr ShxDType of(StateArray array) const {
    return array == StateArray::Frozen   ? frozen
           : array == StateArray::Master ? master
           : isMoment(array)             ? optimizer
                                         : SHX_F32;
  }
};
inline StoredTypes storedTypes(const Manifest &manifest, size_t unit) {
  const Manifest::Unit &u = manifest.units[unit];
  return {frozenTypeOf(u), u.masterType, manifest.optimizerType};
}
/// What an array has of an interval of a section whose first elements are
/// Muon's matrices, which have no second moment; as it counts: scales by their
/// blocks.
constexpr Interval storedInterval(StateArray array, const Interval &section,
                                  int64_t matrixLength) {
  Interval has = isSecond(array) ? behind(matrixLength, section) : section;
  if (!isScale(array))
    return has;
  return {has.begin / kStateBlock, stateBlocks(has.end)};
}

/// Where an array's section of the rank at `part` of a tensor axis begins, of
/// sections of `length` elements behind one another; as the array counts.
constexpr int64_t sectionBegin(StateArray array, int64_t part, int64_t length) {
  return part * (isScale(array) ? length / kStateBlock : length);
}

/// The name of a unit's tensor in a rank's file.
std::string tensorName(const std::string &unit, StateArray array,
                       Optimizer optimizer);
/// As .safetensors calls floats; empty for other types.
const char *safeTensorsName(ShxDType dtype);
/// Sixteen digits.
std::string hexText(uint64_t value);

/// The text of the index's file.
std::string writeIndex(const Checkpoint &checkpoint);
/// What writeIndex makes of an index's JSON: the same with its hash at the end.
std::string sealIndex(std::string json);
/// An index is untrusted input: its hash, every size, name and interval is
/// checked, and that the intervals of each section cover it exactly once.
/// `path` is for messages.
Checkpoint parseIndex(const std::string &text, const std::string &path);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CHECKPOINT_INDEX_H
