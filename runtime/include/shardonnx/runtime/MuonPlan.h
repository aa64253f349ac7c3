// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which rank makes which of Muon's matrices orthogonal, and the memory that
// takes (--optimizer=muon). One place for `inspect` and the runtime.

#ifndef SHARDONNX_RUNTIME_MUONPLAN_H
#define SHARDONNX_RUNTIME_MUONPLAN_H

#include "shardonnx/runtime/Choices.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Manifest.h"
#include <algorithm>
#include <optional>
#include <vector>

namespace shardonnx {

/// Directions are bf16.
constexpr int64_t kDirectionBytes = 2;

struct MuonPlan {
  struct Matrix {
    const Manifest::Param *param;
    int owner; // of the ranks that share the unit (on CPUs: on a machine)
    /// Where it is split over the tensor axis: the rank of that axis at which
    /// the owners' parts come together. Else each rank of the axis has all.
    std::optional<int> joinedAt = {};
    /// Of the whole, which is what becomes orthogonal.
    int64_t rows() const { return size(0); }
    int64_t columns() const { return size(1); }
    int64_t bytes() const { return rows() * columns() * kDirectionBytes; }
    /// Of what a rank of the tensor axis has.
    int64_t partBytes() const { return param->elements() * kDirectionBytes; }
    bool isOwnedBy(int place, int tensorRank) const {
      return owner == place && joinedAt.value_or(tensorRank) == tensorRank;
    }
    /// What a rank that owns this interval of the unit has of the matrix.
    Interval within(const Interval &owned) const {
      int64_t begin = std::max(param->offset, owned.begin);
      int64_t end = std::min(param->offset + param->elements(), owned.end);
      return {begin, std::max(begin, end)};
    }
    /// On the learning rate, as torch.optim.Muon's adjust_lr_fn.
    float factor(AdjustLR adjust) const;
    /// On a GPU: whether the owner of this interval makes the matrix orthogonal
    /// in its slice, which has all of it, aligned as the others are: every rank
    /// chooses the same algorithms of products.
    bool staysIn(const Interval &owned) const;

  private:
    int64_t size(int64_t dim) const {
      bool isSplit = param->split && param->split->dim == dim;
      return isSplit ? param->split->size()
                     : param->shape[static_cast<size_t>(dim)];
    }
  };
  struct Unit {
    std::vector<Matrix> matrices;
    int64_t offset = 0; // of its directions in the window, in bytes
    /// The unit whose directions were there before: there are kMuonWindow
    /// places, taken in turns.
    size_t before = 0;
  };
  std::vector<Unit> units; // the manifest's
  /// What the owners share: the directions, in bf16, of kMuonWindow units.
  int64_t windowBytes = 0;
  int64_t workspaceBytes = 0; // a rank's own, with:
  int64_t joined = 0;         // …where a split matrix is whole
};

/// Matrices go, the most work first, to the owner that has least to do so far;
/// what one unit leaves uneven, the next ones level. `owners` ranks share each
/// part of the units; those of all parts are on one machine, and share split
/// matrices.
MuonPlan planMuon(const Manifest &manifest, int owners);

/// GPUs share nothing: each has, in each place of the window, its slice of the
/// directions and, whole, those of the matrices that it owns which no slice has
/// whole; of split ones these are its part, and the parts of all ranks of the
/// tensor axis where they come together. The same offsets on every rank.
struct DeviceMuonPlan {
  struct Unit {
    int64_t slice = 0, matrices = 0; // offsets in the window, in bytes
  };
  std::vector<Unit> units; // the manifest's
  int64_t windowBytes = 0;
  /// With, at `joined`, a split matrix, and at `factors` each matrix's factor
  /// on the learning rate, in f32.
  int64_t workspaceBytes = 0, joined = 0, factors = 0;
};

DeviceMuonPlan planDeviceMuon(const Manifest &manifest,
                              const Topology &topology);

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_MUONPLAN_H
