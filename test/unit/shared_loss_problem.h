// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What ranks that share a vocabulary compute together, against the whole of it:
// one rank after the other, first to hear what each says, then to answer. For
// the tests of every device's loss.

#ifndef SHARDONNX_TEST_UNIT_SHARED_LOSS_PROBLEM_H
#define SHARDONNX_TEST_UNIT_SHARED_LOSS_PROBLEM_H

#include "loss_problem.h"
#include "shardonnx/runtime/MeshABI.h"
#include <functional>
#include <map>

namespace shardonnx::test {

// One rank's words of a problem; behind the last of all, its rows are zero.
struct LossPart {
  LossPart(const LossProblem &whole, int64_t parts, int64_t rank)
      : whole(whole), d(whole.d), rank(rank),
        words((d.vocab + parts - 1) / parts), w(d.dtypeW, words * d.width),
        dw(d.dtypeDw, words * d.width), dx(d.dtypeX, d.rows * d.lddx) {
    w.fill(0);
    dw.fill(0);
    for (int64_t word = 0; word < wordsHere(); ++word)
      for (int64_t c = 0; c < d.width; ++c) {
        int64_t from = whole.weightAt(c, rank * words + word);
        w.set(at(c, word), whole.w.get(from));
        dw.set(at(c, word), whole.dw.get(from));
      }
    desc.words = d.vocab;
    d.vocab = words;
    desc.loss = d;
    desc.parts = int32_t(parts);
  }

  int64_t wordsHere() const {
    return std::min(words, whole.d.vocab - rank * words);
  }
  int64_t at(int64_t column, int64_t word) const {
    return d.transW ? word * d.width + column : column * words + word;
  }

  const LossProblem &whole;
  ShxLinearCrossEntropy d;
  ShxLinearCrossEntropyPart desc{};
  int64_t rank, words;
  Buffer w, dw, dx;
};

/// How a rank gets the `count` numbers that every rank has.
using ShareExchange =
    std::function<void(const float *mine, float *all, int64_t count)>;
/// What a rank said of a chunk.
using SharesSaid = std::map<std::pair<int64_t, size_t>, std::vector<float>>;

inline ShareExchange listening(SharesSaid &said, int64_t rank) {
  return [&said, rank, chunk = size_t(0)](const float *mine, float *,
                                          int64_t count) mutable {
    said[{rank, chunk++}].assign(mine, mine + count);
  };
}

inline ShareExchange answering(const SharesSaid &said, int64_t parts) {
  return [&said, parts, chunk = size_t(0)](const float *, float *all,
                                           int64_t count) mutable {
    for (int64_t r = 0; r < parts; ++r)
      std::copy_n(said.at({r, chunk}).begin(), count, all + r * count);
    ++chunk;
  };
}

struct LossBars {
  double loss, dx, dw;
};

/// `run(part, gradients, exchange)` is the device's call, and gives the loss.
template <typename Run>
void checkLossParts(const ShxLinearCrossEntropy &d, int64_t parts,
                    const LossBars &bars, Run run) {
  SCOPED_TRACE(testing::Message()
               << parts << " parts, rows " << d.rows << " width " << d.width
               << " vocab " << d.vocab << " chunk " << d.chunkRows << " transW "
               << d.transW << " dtypes " << d.dtypeX << d.dtypeW << d.dtypeDw
               << " accumulate " << d.accumulateDw);
  LossProblem whole(d);
  whole.reference();
  SharesSaid said;
  for (int64_t r = 0; r < parts; ++r) {
    LossPart part(whole, parts, r);
    run(part, true, listening(said, r));
  }
  std::vector<double> dx(size_t(d.rows * d.lddx));
  float first = NAN;
  for (int64_t r = 0; r < parts; ++r) {
    LossPart part(whole, parts, r);
    float loss = run(part, true, answering(said, parts));
    EXPECT_NEAR(loss, whole.loss, bars.loss * std::max(1.0, whole.loss));
    first = r == 0 ? loss : first;
    EXPECT_EQ(loss, first);
    for (int64_t i = 0; i < d.rows; ++i)
      for (int64_t c = 0; c < d.width; ++c)
        dx[size_t(i * d.lddx + c)] += part.dx.get(i * d.lddx + c);
    for (int64_t word = 0; word < part.words; ++word)
      for (int64_t c = 0; c < d.width; ++c) {
        double made = part.dw.get(part.at(c, word));
        if (word < part.wordsHere())
          whole.dw.set(whole.weightAt(c, r * part.words + word), made);
        else
          EXPECT_EQ(made, 0) << "behind the last word";
      }
    EXPECT_EQ(run(part, false, answering(said, parts)), first);
  }
  for (int64_t i = 0; i < d.rows; ++i)
    for (int64_t c = 0; c < d.width; ++c)
      whole.dx.set(i * d.lddx + c, dx[size_t(i * d.lddx + c)]);
  expectClose(whole.dx, whole.dxExpected, bars.dx, "dx");
  expectClose(whole.dw, whole.dwExpected, bars.dw, "dw");
}

inline ShxLinearCrossEntropy randomSharedLoss(std::mt19937 &random,
                                              int64_t parts) {
  ShxLinearCrossEntropy d{};
  d.rows = pick(random, {1, 7, 33});
  d.width = pick(random, {1, 16, 40});
  int64_t words = pick(random, {1, 9, 40});
  d.vocab = parts * words - (words > 1 ? int64_t(random()) % parts : 0);
  d.chunkRows = std::min(d.rows, pick(random, {1, 16}));
  d.ignoreIndex = -100;
  d.ldx = d.width;
  d.lddx = d.width + int64_t(random() % 3);
  d.transW = random() % 2;
  d.dtypeDw = random() % 2 ? SHX_F32 : SHX_BF16;
  d.accumulateDw = random() % 2;
  d.labelDtype = SHX_I64;
  return d;
}

/// A rank's logits may be far below another's, and one of them be infinite in
/// single precision when it is not first made smaller.
template <typename Run> void checkPartsApart(Run run) {
  ShxLinearCrossEntropy d{};
  d.rows = d.chunkRows = 2;
  d.width = 1;
  d.vocab = 4;
  d.ldx = d.lddx = 1;
  d.ignoreIndex = -100;
  d.labelDtype = SHX_I64;
  d.transW = 1;
  LossProblem whole(d);
  for (int64_t word = 0; word < 4; ++word)
    whole.w.set(word, word < 2 ? 200 : -200);
  for (int64_t row = 0; row < 2; ++row) {
    whole.x.set(row, 1);
    whole.labels.set(row, double(row)); // of the first rank
  }
  SharesSaid said;
  for (int64_t r = 0; r < 2; ++r) {
    LossPart part(whole, 2, r);
    run(part, true, listening(said, r));
  }
  for (int64_t r = 0; r < 2; ++r) {
    LossPart part(whole, 2, r);
    EXPECT_NEAR(run(part, true, answering(said, 2)), 2 * std::log(2.0), 1e-5);
  }
}

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_UNIT_SHARED_LOSS_PROBLEM_H
