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
};

/// What the optimizer's kernel gets.
struct OptimizerBuffers {
  float *master, *gradient;
  uint8_t *moments[2];
  uint8_t *params;  // in param_dtype; null in f32
  float *scales[2]; // of moments in int8, else null
  ShxPiece piece;
};

struct OwnedUnit {
  const Manifest::Unit *unit = nullptr;
  int64_t number = 0;            // of the unit
  ShxDType momentType = SHX_F32; // the manifest's
  Interval owned;            // of the trainable section; replicated: all of it
  Interval frozenOwned;      // of the frozen section; replicated: all of it
  Interval counted;          // of the trainable section: in this rank's norm
  float *master = nullptr;   // [owned]
  uint8_t *moments[2] = {};  // [owned] each, null when not needed
  float *scales[2] = {};     // of moments in int8: [stateBlocks(owned)] each
  float *reduced = nullptr;  // [owned]
  uint8_t *frozen = nullptr; // [frozenOwned], in param_dtype
  /// [owned], the masters in param_dtype: the update writes them, gathers read
  /// them. Null in f32, where they are the masters.
  uint8_t *params = nullptr;
  std::vector<Piece> pieces;

  /// Sets the unit and its intervals; every parameter is decayed.
  void assign(const Manifest &manifest, size_t index, const Topology &topology,
              int rank);
  void setDecay(const std::function<bool(const std::string &)> &noDecay);

  const Interval &section(bool trainable) const {
    return trainable ? owned : frozenOwned;
  }
  /// Masters and scales are f32, frozen weights have the unit's param_dtype.
  ShxDType dtype(StateArray array) const {
    if (array == StateArray::Frozen)
      return unit->paramType;
    return isMoment(array) ? momentType : SHX_F32;
  }
  int64_t elementBytes(StateArray array) const {
    return dtypeBytes(dtype(array));
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
      moments[i] =
          memory.template take<uint8_t>(elements * dtypeBytes(momentType));
      if (blockwise())
        scales[i] = memory.template take<float>(stateBlocks(elements));
    }
  }
  bool isF32() const { return unit->paramType == SHX_F32; }

  /// Calls visit(cut, decay) with what each piece has of a part of the slice.
  template <typename Visit>
  void forPieces(const Interval &part, Visit visit) const {
    for (const Piece &piece : pieces) {
      Interval cut{std::max(piece.begin, part.begin),
                   std::min(piece.begin + piece.length, part.end)};
      if (cut.size() > 0)
        visit(cut, piece.decay);
    }
  }
  /// Calls visit(gradients, count) with all that this rank's part of the norm
  /// has of the unit.
  template <typename Visit> void forCounted(Visit visit) const {
    forPieces({counted.begin - owned.begin, counted.end - owned.begin},
              [&](const Interval &cut, bool) {
                visit(static_cast<const float *>(reduced + cut.begin),
                      cut.size());
              });
  }
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_OWNEDUNIT_H
