// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What ranks that share a vocabulary compute together, against the whole of it:
// one rank after the other, first to hear what each says, then to answer.

#include "../../runtime/cpu/kernels/SharedVocabulary.h"
#include "loss_problem.h"
#include "shardonnx/runtime/MeshABI.h"
#include "shardonnx/runtime/Workspace.h"
#include <map>

using namespace shardonnx;
using namespace shardonnx::test;

namespace {

// One rank's words of a problem.
struct Part {
  Part(const LossProblem &whole, int64_t parts, int64_t rank)
      : d(whole.d), rank(rank), words(d.vocab / parts),
        w(d.dtypeW, words * d.width), dw(d.dtypeDw, words * d.width),
        dx(d.dtypeX, d.rows * d.lddx) {
    for (int64_t word = 0; word < words; ++word)
      for (int64_t c = 0; c < d.width; ++c) {
        int64_t from = whole.weightAt(c, rank * words + word);
        w.set(at(c, word), whole.w.get(from));
        dw.set(at(c, word), whole.dw.get(from));
      }
    d.vocab = words;
    desc.loss = d;
    desc.parts = int32_t(parts);
  }

  int64_t at(int64_t column, int64_t word) const {
    return d.transW ? word * d.width + column : column * words + word;
  }

  float run(const LossProblem &whole, bool gradients,
            const rt::ShareGather &gather) {
    float loss = NAN;
    Workspace workspace(cpuLibraries().linearCrossEntropy(d) +
                        sharedLossBytes(d.chunkRows, desc.parts));
    rt::lossOfPart(desc, rank, whole.x.data(), w.data(), whole.labels.data(),
                   &whole.seed, &loss, gradients ? dx.data() : nullptr,
                   gradients ? dw.data() : nullptr, workspace.data(), gather);
    EXPECT_TRUE(workspace.intact());
    return loss;
  }

  ShxLinearCrossEntropy d;
  ShxLinearCrossEntropyPart desc{};
  int64_t rank, words;
  Buffer w, dw, dx;
};

// What rank r said of chunk c.
using Said = std::map<std::pair<int64_t, size_t>, std::vector<float>>;

rt::ShareGather listening(Said &said, int64_t rank) {
  return [&said, rank, chunk = size_t(0)](const float *mine, float *,
                                          int64_t count) mutable {
    said[{rank, chunk++}].assign(mine, mine + count);
  };
}

rt::ShareGather answering(const Said &said, int64_t parts) {
  return [&said, parts, chunk = size_t(0)](const float *, float *all,
                                           int64_t count) mutable {
    for (int64_t r = 0; r < parts; ++r)
      std::copy_n(said.at({r, chunk}).begin(), count, all + r * count);
    ++chunk;
  };
}

void checkParts(const ShxLinearCrossEntropy &d, int64_t parts) {
  SCOPED_TRACE(testing::Message()
               << parts << " parts, rows " << d.rows << " width " << d.width
               << " vocab " << d.vocab << " chunk " << d.chunkRows << " transW "
               << d.transW << " accumulate " << d.accumulateDw);
  LossProblem whole(d);
  whole.reference();
  Said said;
  for (int64_t r = 0; r < parts; ++r)
    Part(whole, parts, r).run(whole, true, listening(said, r));
  std::vector<double> dx(size_t(d.rows * d.lddx)), dw(size_t(whole.dw.size()));
  float first = NAN;
  for (int64_t r = 0; r < parts; ++r) {
    Part part(whole, parts, r);
    float loss = part.run(whole, true, answering(said, parts));
    EXPECT_NEAR(loss, whole.loss, 1e-5 * std::max(1.0, whole.loss));
    first = r == 0 ? loss : first;
    EXPECT_EQ(loss, first);
    EXPECT_EQ(part.run(whole, false, answering(said, parts)), first);
    for (int64_t i = 0; i < d.rows; ++i)
      for (int64_t c = 0; c < d.width; ++c)
        dx[size_t(i * d.lddx + c)] += part.dx.get(i * d.lddx + c);
    for (int64_t word = 0; word < part.words; ++word)
      for (int64_t c = 0; c < d.width; ++c)
        dw[size_t(whole.weightAt(c, r * part.words + word))] =
            part.dw.get(part.at(c, word));
  }
  for (int64_t i = 0; i < d.rows; ++i)
    for (int64_t c = 0; c < d.width; ++c)
      whole.dx.set(i * d.lddx + c, dx[size_t(i * d.lddx + c)]);
  for (int64_t i = 0; i < whole.dw.size(); ++i)
    whole.dw.set(i, dw[size_t(i)]);
  expectClose(whole.dx, whole.dxExpected, precision(d.dtypeX), "dx");
  expectClose(whole.dw, whole.dwExpected, precision(d.dtypeDw), "dw");
}

TEST(CpuSharedLoss, IsThatOfTheWholeVocabulary) {
  std::mt19937 random(3);
  for (int i = 0; i < 40; ++i) {
    ShxLinearCrossEntropy d{};
    int64_t parts = pick(random, {2, 3, 4});
    d.rows = pick(random, {1, 7, 33});
    d.width = pick(random, {1, 16, 40});
    d.vocab = parts * pick(random, {1, 9, 40});
    d.chunkRows = std::min(d.rows, pick(random, {1, 16}));
    d.ignoreIndex = -100;
    d.ldx = d.width;
    d.lddx = d.width + int64_t(random() % 3);
    d.transW = random() % 2;
    d.dtypeDw = random() % 2 ? SHX_F32 : SHX_BF16;
    d.accumulateDw = random() % 2;
    d.labelDtype = SHX_I64;
    checkParts(d, parts);
    if (HasFatalFailure())
      return;
  }
}

// A rank's logits may be far below another's, and one of them be infinite in
// single precision when it is not first made smaller.
TEST(CpuSharedLoss, RanksApart) {
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
  Said said;
  for (int64_t r = 0; r < 2; ++r)
    Part(whole, 2, r).run(whole, true, listening(said, r));
  for (int64_t r = 0; r < 2; ++r)
    EXPECT_NEAR(Part(whole, 2, r).run(whole, true, answering(said, 2)),
                2 * std::log(2.0), 1e-5);
}

} // namespace
