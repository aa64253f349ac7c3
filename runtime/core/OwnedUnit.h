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
  float *master, *gradient, *moments[2];
  uint8_t *params; // in param_dtype; null in f32
};

struct OwnedUnit {
  const Manifest::Unit *unit = nullptr;
  Interval owned;            // of the trainable section; replicated: all of it
  Interval frozenOwned;      // of the frozen section; replicated: all of it
  Interval counted;          // of the trainable section: in this rank's norm
  float *master = nullptr;   // [owned]
  float *moments[2] = {};    // [owned] each, null when not needed
  float *reduced = nullptr;  // [owned]
  uint8_t *frozen = nullptr; // [frozenOwned], in param_dtype
  /// [owned], the masters in param_dtype: the update writes them, gathers read
  /// them. Null in f32, where they are the masters.
  uint8_t *params = nullptr;
  std::vector<Piece> pieces;

  /// Sets the unit and its intervals; every parameter is decayed.
  void assign(const Manifest::Unit &owner, const Topology &topology, int rank);
  void setDecay(const std::function<bool(const std::string &)> &noDecay);

  const Interval &section(bool trainable) const {
    return trainable ? owned : frozenOwned;
  }
  /// Masters and moments are f32, frozen weights have the unit's param_dtype.
  ShxDType dtype(StateArray array) const {
    return array == StateArray::Frozen ? unit->paramType : SHX_F32;
  }
  int64_t elementBytes(StateArray array) const {
    return dtypeBytes(dtype(array));
  }
  /// Where element `begin` of the array's section lies.
  uint8_t *address(StateArray array, int64_t begin) const;
  /// From element `at` of the slice on.
  OptimizerBuffers optimizerBuffers(int64_t at) const;
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
