// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How attention is cut into tiles and tasks. Depends on shapes alone, never on
// the number of threads or the instruction set: the compiler plans memory by
// it, and results must not change with the machine's load. The functions are
// static because files of several instruction sets include them (isa/Simd.h).

#ifndef SHARDONNX_RUNTIME_CPU_ATTENTIONPLAN_H
#define SHARDONNX_RUNTIME_CPU_ATTENTIONPLAN_H

#include "shardonnx/runtime/ABI.h"

namespace shardonnx::rt {

constexpr int64_t kForwardBlock = 256; // queries of a forward task, at most
constexpr int64_t kForwardLeast = 128; // and at least, where there are as many
constexpr int64_t kForwardKeys = 96;   // keys at once in forward
constexpr int64_t kQueryTile = 64;     // queries at once in backward
constexpr int64_t kKeyTile = 96;       // keys whose scores are live at once
constexpr int64_t kKeyChunk = 512;     // keys that a task has packed at a time
constexpr int64_t kWidestTile = 32;    // lanes of the widest instruction set
/// At least this many tasks where batch × heads alone are fewer: forward cuts
/// the queries, backward the keys, at the price of one copy of dq a part.
constexpr int64_t kLeastTasks = 16;

struct AttentionPlan {
  int64_t forwardBlock, forwardBlocks; // queries are cut in such blocks
  int64_t keyChunks;
  int64_t keyParts;    // keys are cut in this many parts, one task each
  int64_t paddedDim;   // headDim up to a multiple of the widest tile
  int64_t partialSize; // floats of one part's dq
  bool partialDq;      // dq is summed in the workspace first
};

static constexpr int64_t ceilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

static constexpr AttentionPlan planAttention(const ShxAttention &desc) {
  AttentionPlan plan{};
  int64_t heads = desc.batch * desc.kvHeads;
  plan.forwardBlock = kForwardBlock;
  while (plan.forwardBlock > kForwardLeast &&
         ceilDiv(desc.seqQ, plan.forwardBlock) * heads < kLeastTasks)
    plan.forwardBlock /= 2;
  plan.forwardBlocks = ceilDiv(desc.seqQ, plan.forwardBlock);
  plan.keyChunks = ceilDiv(desc.seqK, kKeyChunk);
  int64_t parts = heads > 0 ? ceilDiv(kLeastTasks, heads) : 1;
  plan.keyParts = parts < plan.keyChunks ? parts : plan.keyChunks;
  plan.paddedDim = ceilDiv(desc.headDim, kWidestTile) * kWidestTile;
  plan.partialSize = desc.batch * desc.heads * desc.seqQ * desc.headDim;
  plan.partialDq = plan.keyChunks > 1;
  return plan;
}

/// The scratch of one thread, in floats; offsets are multiples of a cache line.
static constexpr int64_t scratchLine(int64_t floats) {
  return ceilDiv(floats, 16) * 16;
}

struct ForwardScratch {
  int64_t queries, output, peak, sum; // of a block of queries
  int64_t keys, values;               // of a chunk of keys
  int64_t scores, floats;
};
static constexpr ForwardScratch forwardScratch(const ShxAttention &desc) {
  AttentionPlan plan = planAttention(desc);
  int64_t block = desc.seqQ < plan.forwardBlock
                      ? ceilDiv(desc.seqQ, kWidestTile) * kWidestTile
                      : plan.forwardBlock;
  int64_t chunk = desc.seqK < kKeyChunk ? desc.seqK : kKeyChunk;
  ForwardScratch s{};
  int64_t at = 0;
  auto take = [&at](int64_t floats) {
    int64_t here = at;
    at += scratchLine(floats);
    return here;
  };
  s.queries = take(block * desc.headDim);
  s.output = take(block * plan.paddedDim);
  s.peak = take(block);
  s.sum = take(block);
  s.keys = take(chunk * desc.headDim);
  s.values = take(chunk * plan.paddedDim);
  s.scores = take(kForwardKeys * kWidestTile);
  s.floats = at;
  return s;
}

struct BackwardScratch {
  int64_t keys, values, dkeys, dvalues;         // of a chunk of keys
  int64_t queryRows, doutRows, outRow, doutRow; // of a tile of queries
  int64_t queries, dout;                        // the same, queries in lanes
  int64_t dqueries;
  int64_t probabilities, dscores, lse, delta; // keys × queries
  int64_t keyColumns, dscoreColumns;          // for pairs of bf16
  int64_t floats;
};
static constexpr BackwardScratch backwardScratch(const ShxAttention &desc) {
  AttentionPlan plan = planAttention(desc);
  int64_t chunk = desc.seqK < kKeyChunk ? desc.seqK : kKeyChunk;
  BackwardScratch s{};
  int64_t at = 0;
  auto take = [&at](int64_t floats) {
    int64_t here = at;
    at += scratchLine(floats);
    return here;
  };
  s.keys = take(chunk * desc.headDim);
  s.values = take(chunk * desc.headDim);
  s.dkeys = take(chunk * plan.paddedDim);
  s.dvalues = take(chunk * plan.paddedDim);
  s.queryRows = take(kQueryTile * plan.paddedDim);
  s.doutRows = take(kQueryTile * plan.paddedDim);
  s.outRow = take(plan.paddedDim);
  s.doutRow = take(plan.paddedDim);
  s.queries = take(kQueryTile * desc.headDim);
  s.dout = take(kQueryTile * desc.headDim);
  s.dqueries = take(kQueryTile * plan.paddedDim);
  s.probabilities = take(kKeyTile * kQueryTile);
  s.dscores = take(kKeyTile * kQueryTile);
  s.lse = take(kQueryTile);
  s.delta = take(kQueryTile);
  bool pairs = desc.dtype == SHX_BF16;
  s.keyColumns = take(pairs ? ceilDiv(chunk, 2) * plan.paddedDim : 0);
  s.dscoreColumns = take(pairs ? kKeyTile / 2 * kWidestTile : 0);
  s.floats = at;
  return s;
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_ATTENTIONPLAN_H
