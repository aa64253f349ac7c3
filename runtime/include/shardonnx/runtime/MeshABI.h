// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ABI.h's calls between the ranks of one axis of the mesh (Mesh.h). Its
// conventions hold here; a change is a change of SHX_ABI_VERSION.

#ifndef SHARDONNX_RUNTIME_MESHABI_H
#define SHARDONNX_RUNTIME_MESHABI_H

#include "shardonnx/runtime/ABI.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ShxAxisCall {
  SHX_AXIS_ALL_REDUCE = 0, // the sum of the ranks' tensors, in their order
  SHX_AXIS_ALL_GATHER = 1, // the whole, of the ranks' parts
  SHX_AXIS_ALL_SLICE = 2,  // this rank's part of the whole; nothing is sent
  SHX_AXIS_REDUCE_SCATTER =
      3,                   // this rank's part of the sum of the ranks' wholes
  SHX_AXIS_PART_PAD = 4,   // the part at its place among zeros; nothing is sent
  SHX_AXIS_ALL_TO_ALL = 5, // of each rank's tensor this rank's part, joined
  // The ranks' parts in an order in which this rank's is the last, and the way
  // back; nothing is sent.
  SHX_AXIS_PART_ROLL = 6,
  SHX_AXIS_PART_UNROLL = 7,
  SHX_AXIS_SHIFT = 8, // what the rank `behind` this one gives; of one section
} ShxAxisCall;

#define SHX_MAX_SECTIONS 8
// The whole is [outer, sum of the sections, inner], row-major, of which each of
// `parts` ranks has an even part of every section; a sum is of one section. In
// an all-to-all it is what a rank gives, of which every rank takes its part;
// the ranks' are parts of the result, [.., sum of joinedSections, joinedInner].
// Of a slice and a pad the part is that of the rank `behind` this one, around
// the axis; in a `zigzag` every second section has its parts from the last rank
// to the first.
typedef struct ShxAxisCollective {
  int64_t outer, inner;
  int64_t sections[SHX_MAX_SECTIONS];
  int64_t joinedInner;
  int64_t joinedSections[SHX_MAX_SECTIONS];
  int32_t sectionCount;
  int32_t joinedSectionCount;
  int32_t call;  // ShxAxisCall
  int32_t axis;  // MeshAxis
  int32_t parts; // ranks of the axis
  int32_t dtype;
  int32_t behind; // 0 to parts - 1
  int32_t zigzag;
} ShxAxisCollective;
// `to` is complete and `from` may be written again by what comes after it: on
// CPUs when it returns. They may be one buffer in a sum. The workspace has
// LibraryModel::axisCollective bytes (Workspace.h).
void shx_axis_collective(ShxContext *ctx, const ShxAxisCollective *desc,
                         const void *from, void *to, void *workspace);

// The same in two calls with the same arguments, of CUDA programs only. Between
// them nobody touches `to` and the workspace, or writes `from`. Waits come in
// the order of starts; a function ends with none outstanding.
void shx_axis_start(ShxContext *ctx, const ShxAxisCollective *desc,
                    const void *from, void *to, void *workspace);
void shx_axis_wait(ShxContext *ctx, const ShxAxisCollective *desc,
                   const void *from, void *to, void *workspace);

// A vocabulary of which each of `parts` ranks of an axis has the words behind
// those of the rank before: the calls of ABI.h whose `vocab` is the rows that
// one has. Ids and labels count in all `words`, behind which the rows of the
// last rank are no words: zero, and so are their gradients.
typedef struct ShxEmbeddingPart {
  ShxEmbedding table;
  int64_t words;
  int32_t axis; // MeshAxis
  int32_t parts;
} ShxEmbeddingPart;
// out is zero where another rank has the row.
void shx_embedding_part(ShxContext *ctx, const ShxEmbeddingPart *desc,
                        const void *table, const void *ids, void *out);
// The workspace is that of a table with one more row, which is what the rows of
// other ranks are to this one.
void shx_embedding_part_grad(ShxContext *ctx, const ShxEmbeddingPart *desc,
                             const void *ids, const void *dy, void *dtable,
                             void *workspace);

typedef struct ShxLinearCrossEntropyPart {
  ShxLinearCrossEntropy loss;
  int64_t words;
  int32_t axis; // MeshAxis
  int32_t parts;
} ShxLinearCrossEntropyPart;
// What a rank tells the others of each row, f32.
#define SHX_LOSS_SHARE_NUMBERS 2
// All ranks of the axis call it with the same rows and labels, and have the
// same loss; dx is a summand of each. There is no softcap. The workspace is
// shx_linear_cross_entropy's, and behind it sharedLossBytes (Workspace.h).
void shx_linear_cross_entropy_part(ShxContext *ctx,
                                   const ShxLinearCrossEntropyPart *desc,
                                   const void *x, const void *w,
                                   const void *labels, const float *seed,
                                   float *loss, void *dx, void *dw,
                                   void *workspace);

#ifdef __cplusplus
} // extern "C"

namespace shardonnx {
// The place on its axis of the rank `behind` that at `place`, around the axis:
// whose part a slice, a pad or a shift is of.
constexpr int placeBehind(const ShxAxisCollective &desc, int place) {
  return (place - desc.behind + desc.parts) % desc.parts;
}
} // namespace shardonnx
#endif

#endif // SHARDONNX_RUNTIME_MESHABI_H
