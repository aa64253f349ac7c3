// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The mesh that the ranks of a run form (--mesh), and how a tensor is split
// along one of its axes.

#ifndef SHARDONNX_RUNTIME_MESH_H
#define SHARDONNX_RUNTIME_MESH_H

#include "shardonnx/runtime/Spelling.h"
#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace shardonnx {

// From the axis of the farthest ranks to that of neighbours, as torchtitan
// orders them: rank = ((replicate·S + shard)·C + context)·T + tensor.
enum class MeshAxis { Replicate, Shard, Context, Tensor };
constexpr int kMeshAxes = 4;

template <> struct Spellings<MeshAxis> {
  static constexpr Spelling<MeshAxis> table[] = {
      {MeshAxis::Replicate, "replicate"},
      {MeshAxis::Shard, "shard"},
      {MeshAxis::Context, "context"},
      {MeshAxis::Tensor, "tensor"}};
};

// How many ranks each axis has. 0: what is left when a run starts, which only
// the first two may say, since they do not change the program.
struct Mesh {
  std::array<int64_t, kMeshAxes> sizes = {0, 0, 1, 1};
  constexpr int64_t size(MeshAxis axis) const {
    return sizes[static_cast<size_t>(axis)];
  }
  constexpr void set(MeshAxis axis, int64_t size) {
    sizes[static_cast<size_t>(axis)] = size;
  }
  constexpr int64_t tensor() const { return size(MeshAxis::Tensor); }
  constexpr int64_t context() const { return size(MeshAxis::Context); }
  // Ranks that compute the same samples.
  constexpr int64_t together() const { return context() * tensor(); }
  // Whether anything of it was asked for.
  bool given() const { return sizes != Mesh().sizes; }
  // As --mesh takes it: the axes that are not as they are without it.
  std::string text() const {
    std::string all;
    for (const Spelling<MeshAxis> &axis : Spellings<MeshAxis>::table)
      if (int64_t ranks = size(axis.value); ranks != Mesh().size(axis.value))
        all += (all.empty() ? "" : ",") + std::string(axis.text) + ":" +
               std::to_string(ranks);
    return all;
  }
};

// A tensor whose dimension `dim` consists of `sections` (one, or query, key and
// value side by side), each split evenly over the ranks of an axis: a rank's
// part is its parts of the sections side by side.
struct Split {
  int64_t dim = 0;
  std::vector<int64_t> sections;
  // Of the whole dimension.
  int64_t size() const {
    return std::accumulate(sections.begin(), sections.end(), int64_t(0));
  }
};

// Where the elements of one part of a split dimension lie in the whole one. In
// a zigzag every second section has its parts from the last to the first.
// Keeps the address of the sections.
class SplitPart {
public:
  SplitPart(const int64_t *sections, size_t count, int64_t part, int64_t parts,
            bool zigzag = false)
      : sections(sections), count(count), part(part), parts(parts),
        zigzag(zigzag) {}

  // Indices that lie side by side in the whole, too.
  struct Run {
    int64_t whole; // of the first
    int64_t count;
  };
  // From index `at` of the part on.
  Run runOf(int64_t at) const {
    int64_t begin = 0, wholeBegin = 0;
    for (size_t s = 0; s < count; ++s) {
      int64_t mine = sections[s] / parts;
      if (at < begin + mine)
        return {wholeBegin + placeIn(s) * mine + (at - begin),
                begin + mine - at};
      begin += mine;
      wholeBegin += sections[s];
    }
    return {wholeBegin, 0};
  }

  // Of tensors whose split dimension has `inner` elements behind each index:
  // how many elements of the part lie before element `end` of the whole.
  int64_t countBefore(int64_t inner, int64_t end) const {
    int64_t size = std::accumulate(sections, sections + count, int64_t(0));
    int64_t row = size * inner, rest = end % row, begin = 0;
    int64_t before = end / row * (row / parts);
    for (size_t s = 0; s < count; ++s) {
      int64_t mine = sections[s] / parts * inner;
      int64_t first = begin + placeIn(s) * mine;
      before += rest < first ? 0 : rest - first < mine ? rest - first : mine;
      begin += sections[s] * inner;
    }
    return before;
  }

  // Of such a tensor, calls visit(at, whole, count) for elements [begin, end)
  // of the part, of which `count` from `at` on lie side by side at `whole`.
  template <typename Visit>
  void forRuns(int64_t inner, int64_t begin, int64_t end, Visit visit) const {
    int64_t size = std::accumulate(sections, sections + count, int64_t(0));
    int64_t row = size / parts * inner;
    while (begin < end) {
      int64_t at = begin % row;
      Run run = runOf(at / inner);
      int64_t length = run.count * inner - at % inner;
      length = length < end - begin ? length : end - begin;
      visit(begin, (begin / row * size + run.whole) * inner + at % inner,
            length);
      begin += length;
    }
  }

private:
  int64_t placeIn(size_t section) const {
    return zigzag && section % 2 == 1 ? parts - 1 - part : part;
  }

  const int64_t *sections;
  size_t count;
  int64_t part, parts;
  bool zigzag;
};

// What a rank of a group keeps ready for the others is at most so much, and
// larger tensors go in pieces: two of them, so that one is given while the
// other is taken.
constexpr int64_t kMeshPieceBytes = int64_t(1) << 20;
constexpr int64_t meshBytes(int64_t largest) {
  return 2 * (largest < kMeshPieceBytes ? (largest + 63) / 64 * 64
                                        : kMeshPieceBytes);
}

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_MESH_H
