// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a rank owns of a unit, on every device: which intervals of its two
// sections, and the tensors over them that the device's State has placed.

#ifndef SHARDONNX_RUNTIME_OWNEDUNIT_H
#define SHARDONNX_RUNTIME_OWNEDUNIT_H

#include "TrainState.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Manifest.h"
#include <functional>
#include <vector>

namespace shardonnx::rt {

/// A part of the owned slice that is parameters of one kind (the rest is
/// padding, which nobody writes): the optimizer and the norm go over these.
struct Piece {
  int64_t begin = 0, length = 0; // in the owned slice
  bool decay = true;
  bool repeated = false; // another rank of the tensor axis has it in its norm
};

/// What the optimizer's kernel gets.
struct OptimizerBuffers {
  uint8_t *master;
  float *gradient;
  uint8_t *moments[2];
  uint8_t *params;  // in param_dtype; null where the unit has none
  float *scales[2]; // of moments in int8, else null
  ShxPiece piece;
};

struct OwnedUnit {
  const Manifest::Unit *unit = nullptr;
  int64_t number = 0;            // of the unit
  ShxDType momentType = SHX_F32; // the manifest's
  Interval owned;             // of the trainable section; replicated: all of it
  Interval frozenOwned;       // of the frozen section; replicated: all of it
  Interval counted;           // of the trainable section: in this rank's norm
  int64_t matrixElements = 0; // of the slice: Muon's, which are first in it
  /// [owned], of the unit's master_dtype. Halves: what of it `params` lack, 16
  /// bits (MasterHalves.h).
  uint8_t *master = nullptr;
  bool halves = false;
  /// [owned], null when not needed; the second of what is no matrix.
  uint8_t *moments[2] = {};
  float *scales[2] = {};     // of moments in int8: [stateBlocks(owned)] each
  float *reduced = nullptr;  // [owned]
  uint8_t *frozen = nullptr; // [frozenOwned], in param_dtype
  /// [owned], in param_dtype, rounded as --gather-dtype says: the update writes
  /// it, gathers read it. Null where that is the masters.
  uint8_t *params = nullptr;
  std::vector<Piece> pieces;

  /// This rank's place on the tensor axis: parameters that are not split are
  /// the first one's, for the norm.
  int tensorRank = 0;

  /// Sets the unit and its intervals; every parameter is decayed.
  void assign(const Manifest &manifest, size_t index, const Topology &topology,
              int rank);
  void setDecay(const std::function<bool(const std::string &)> &noDecay);

  const Interval &section(bool trainable) const {
    return trainable ? owned : frozenOwned;
  }
  /// Scales are f32, frozen weights have the unit's param_dtype.
  ShxDType dtype(StateArray array) const {
    if (array == StateArray::Frozen)
      return unit->paramType;
    if (array == StateArray::Master)
      return unit->masterType;
    return isMoment(array) ? momentType : SHX_F32;
  }
  int64_t elementBytes(StateArray array) const {
    return dtypeBytes(dtype(array));
  }
  /// Of an element as `master` has it.
  int64_t masterBytes() const {
    return halves ? int64_t(sizeof(int16_t)) : elementBytes(StateArray::Master);
  }
  bool blockwise() const { return momentType == SHX_I8; }
  /// Where element `begin` of the array's section lies.
  uint8_t *address(StateArray array, int64_t begin) const;
  /// What updates a part of the slice: buffers that begin where it does, or
  /// with the block that it begins in.
  OptimizerBuffers optimizerBuffers(const Interval &part) const;
  /// Places moments of so many elements, and their scales.
  template <typename Carver>
  void carveMoments(Carver &memory, int count, int64_t elements) {
    for (int i = 0; i < count; ++i) {
      if (i == 1)
        elements -= matrixElements;
      moments[i] =
          memory.template take<uint8_t>(elements * dtypeBytes(momentType));
      if (blockwise())
        scales[i] = memory.template take<float>(stateBlocks(elements));
    }
  }

  /// Calls visit(cut, piece) with what each piece has of a part of the slice.
  template <typename Visit>
  void forPieces(const Interval &part, Visit visit) const {
    for (const Piece &piece : pieces) {
      Interval cut{std::max(piece.begin, part.begin),
                   std::min(piece.begin + piece.length, part.end)};
      if (cut.size() > 0)
        visit(cut, piece);
    }
  }
  /// Calls visit(gradients, count, repeated) with all that this rank's part of
  /// the norm has of the unit, and what another rank of the tensor axis has.
  template <typename Visit> void forCounted(Visit visit) const {
    forPieces({counted.begin - owned.begin, counted.end - owned.begin},
              [&](const Interval &cut, const Piece &piece) {
                visit(static_cast<const float *>(reduced + cut.begin),
                      cut.size(), piece.repeated);
              });
  }
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_OWNEDUNIT_H
