// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives between the ranks of an axis of the mesh, over memory that they
// share. The issuing thread gives its tensor piece by piece, and takes what it
// wants of the others' pieces: docs/runtime.md.

#ifndef SHARDONNX_RUNTIME_CPU_AXISGROUP_H
#define SHARDONNX_RUNTIME_CPU_AXISGROUP_H

#include "../comm/Control.h"
#include "../core/Trace.h"
#include "State.h"
#include "shardonnx/runtime/MeshABI.h"

namespace shardonnx::rt {

class AxisGroup {
public:
  AxisGroup(const State &state, Control &control, Trace *trace)
      : state(state), control(control), trace(trace),
        pieceBytes(state.manifest.meshBytes / 2) {}

  void run(const ShxAxisCollective &desc, const uint8_t *from, uint8_t *to);
  /// This rank's place on an axis.
  int placeOn(MeshAxis axis) const {
    const Topology &mesh = state.topology;
    return axis == MeshAxis::Tensor ? mesh.tensorRank(state.rank)
                                    : mesh.contextRank(state.rank);
  }

private:
  /// The ranks of an axis that this one meets, itself among them.
  struct Members {
    int first = 0, step = 1, count = 0, part = 0;
    int at(int i) const { return first + i * step; }
  };
  Members membersOf(const ShxAxisCollective &desc) const;

  void slice(const ShxAxisCollective &desc, const uint8_t *from, uint8_t *to);
  void pad(const ShxAxisCollective &desc, const uint8_t *from, uint8_t *to);
  /// Rows begin with what part `first` is.
  static void roll(const ShxAxisCollective &desc, const uint8_t *from,
                   uint8_t *to, int first);
  void exchange(const ShxAxisCollective &desc, const uint8_t *from,
                uint8_t *to);
  /// Elements [begin, begin + count) of a piece, of each rank's part where
  /// those are summed up.
  void give(const ShxAxisCollective &desc, int64_t begin, int64_t count,
            const uint8_t *from);
  void take(const ShxAxisCollective &desc, int64_t begin, int64_t count,
            uint8_t *to);
  void takePart(const ShxAxisCollective &desc, const Members &members,
                int64_t begin, int64_t count, uint8_t *to);
  /// Until each of the ranks has counted so far.
  void await(const Members &members, Counter RankBlock::*counter,
             uint64_t value);
  /// What a rank gives in this turn.
  const uint8_t *given(int rank) const {
    return state.meshBuffer(rank) + int64_t(turn % 2) * pieceBytes;
  }

  const State &state;
  Control &control;
  Trace *trace; // null: none
  const int64_t pieceBytes;
  // Pieces given by this rank, and by all that see its samples: they make the
  // same calls, of whichever axis.
  uint64_t turn = 0;
  Members readers[2]; // of what lies in each half of the buffer
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_AXISGROUP_H
