// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Instructions that the decoder names itself, because their operands fit no
// common pattern.

#ifndef SHARDONNX_TEST_CUDA_EMULATOR_WARPHANDLERS_H
#define SHARDONNX_TEST_CUDA_EMULATOR_WARPHANDLERS_H

#include "Machine.h"

namespace shardonnx::emulator {

/// {a, b} in one register of `bytes`; parts of `part` bytes in lists[target].
Handler packHandler(unsigned bytes, unsigned part);
Handler unpackHandler(unsigned bytes, unsigned part);

/// lists[target] = {offset of the destination, bytes, its address is wide,
/// register of the bytes to read}.
void startCopy(Warp &w, const Instr &i);
void commitCopies(Warp &w, const Instr &i);
/// imm: groups that may stay on their way; -1 none and nothing uncommitted.
void waitCopies(Warp &w, const Instr &i);

/// imm: the window, 0 for global memory.
void testSpace(Warp &w, const Instr &i);

enum ShuffleMode : uint8_t { ShuffleUp, ShuffleDown, ShuffleBfly, ShuffleIdx };
/// lists[target] = {predicate or kNowhere, member mask}.
void shuffleLanes(Warp &w, const Instr &i);
enum VoteMode : uint8_t { VoteAll, VoteAny, VoteUni, VoteBallot, MatchAny };
/// b: member mask; imm: all ones if the predicate is negated.
void voteLanes(Warp &w, const Instr &i);
void matchLanes(Warp &w, const Instr &i);
void readActiveMask(Warp &w, const Instr &i);
/// mode: index of the operation; b: member mask.
enum ReduceMode : uint8_t {
  ReduceAdd,
  ReduceMinSigned,
  ReduceMaxSigned,
  ReduceMinUnsigned,
  ReduceMaxUnsigned,
  ReduceAnd,
  ReduceOr,
  ReduceXor
};
void reduceLanes(Warp &w, const Instr &i);
void syncWarp(Warp &w, const Instr &i);
void trapLanes(Warp &w, const Instr &i);
void waitForGrids(Warp &w, const Instr &i);

/// lists[target]: registers of d, a, b, c. mode: type of A and B.
enum MatrixType : uint8_t { MatrixHalf, MatrixBFloat, MatrixTensorFloat };
/// imm: K.
void multiplyMatrix(Warp &w, const Instr &i);
/// lists[target]: destination registers; mode bit 0: transposed.
void loadMatrices(Warp &w, const Instr &i);

} // namespace shardonnx::emulator

#endif
