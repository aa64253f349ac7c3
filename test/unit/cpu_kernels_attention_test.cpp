// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention and its gradient against a score matrix in double, over generated
// shapes with every feature, and the same bits for any number of threads.

#include "attention_problem.h"
#include "shardonnx/runtime/Cpu.h"
#include "shardonnx/runtime/Workspace.h"

using namespace shardonnx;
using namespace shardonnx::test;

namespace {

struct Problem : AttentionProblem {
  using AttentionProblem::AttentionProblem;
  void run() {
    float *lseData = static_cast<float *>(lse.data());
    shx_attention(nullptr, &desc, q.data(), k.data(), v.data(), maskData(),
                  out.data(), lseData, nullptr);
    Workspace workspace(cpuLibraries().attentionGrad(desc));
    shx_attention_grad(nullptr, &desc, q.data(), k.data(), v.data(), maskData(),
                       out.data(), lseData, dout.data(), dq.data(), dk.data(),
                       dv.data(), workspace.data());
    EXPECT_TRUE(workspace.intact());
  }
};
using Case = AttentionCase;
using Reference = AttentionReference;

void compare(Problem &p, const Reference &r) {
  p.run();
  expectResults(p, r);
}

void check(const Case &c) {
  SCOPED_TRACE(testing::Message() << c);
  Problem p(c);
  Reference r(p);
  auto run = [&] { compare(p, r); };
  if (c.dtype == SHX_BF16)
    forEachProductTable(run);
  else
    forEachKernelTable(run);
}

TEST(CpuAttention, GeneratedShapes) {
  std::mt19937 random(7);
  for (int i = 0; i < 70; ++i) {
    check(randomAttention(random));
    if (HasFatalFailure())
      return;
  }
}

TEST(CpuAttention, SizeOne) { check(Case()); }

TEST(CpuAttention, LargeHeadDim) {
  Case c;
  c.heads = 2;
  c.seqQ = c.seqK = 70;
  c.headDim = 256;
  c.causal = true;
  check(c);
}

// More keys than a task accumulates, cut into several tasks.
TEST(CpuAttention, ManyKeysFewHeads) {
  for (int32_t dtype : {SHX_F32, SHX_BF16}) {
    Case c;
    c.heads = 2;
    c.seqQ = 100;
    c.seqK = 1500;
    c.dtype = dtype;
    check(c);
    c.causal = true;
    c.window = 600;
    check(c);
  }
}

// Whole tiles lie outside a query's document.
TEST(CpuAttention, Documents) {
  Case c;
  c.batch = 2;
  c.heads = 2;
  c.seqQ = c.seqK = 600; // more keys than a task accumulates
  c.causal = true;
  c.mask = Mask::FirstKeys;
  check(c);
}

// More keys than a task accumulates, one task for all of them.
TEST(CpuAttention, ManyKeysManyHeads) {
  Case c;
  c.batch = 4;
  c.heads = 8;
  c.kvHeads = 4;
  c.seqQ = 9;
  c.seqK = 1030;
  c.dtype = SHX_F16;
  check(c);
}

TEST(CpuAttention, FullyMaskedRowsGiveZeros) {
  Case c;
  c.heads = 2;
  c.seqQ = 40;
  c.seqK = 24; // the first 16 queries of a causal mask see nothing
  c.causal = true;
  check(c);
  Problem p(c);
  p.run();
  for (int64_t x = 0; x < 16 * 2 * 16; ++x) {
    EXPECT_EQ(p.out.get(x), 0);
    EXPECT_EQ(p.dq.get(x), 0);
  }
}

TEST(CpuAttention, NumbersThatHideEveryKey) { checkUnseenQueries<Problem>(); }

// Scores of -inf by a mask and by overflow, with and without the guard.
TEST(CpuAttention, NothingIsZerosOrNaN) {
  for (bool unguarded : {false, true}) {
    Case c;
    c.seqQ = c.seqK = 20;
    c.mask = Mask::Additive;
    Problem p(c);
    p.desc.flags = unguarded ? SHX_ATTENTION_UNGUARDED : 0;
    for (int64_t j = 0; j < c.seqK; ++j)
      p.mask.set(3 * c.seqK + j, -INFINITY);
    for (int64_t x = 0; x < c.headDim; ++x) {
      p.q.set(7 * c.headDim + x, 1e30);
      for (int64_t j = 0; j < c.seqK; ++j)
        p.k.set(j * c.headDim + x, -1e30);
    }
    p.run();
    for (int64_t i : {3, 7})
      for (int64_t x = 0; x < c.headDim; ++x) {
        EXPECT_EQ(std::isnan(p.out.get(i * c.headDim + x)), unguarded);
        EXPECT_EQ(std::isnan(p.dq.get(i * c.headDim + x)), unguarded);
      }
    EXPECT_EQ(std::isnan(p.lse.get(3)), unguarded);
    EXPECT_EQ(std::isnan(p.dv.get(0)), unguarded);
  }
}

TEST(CpuAttention, LargeScoresDoNotOverflow) {
  Case c;
  c.seqQ = c.seqK = 50;
  Problem p(c);
  for (int64_t i = 0; i < p.q.size(); ++i)
    p.q.set(i, p.q.get(i) * 300);
  p.run();
  Reference r(p);
  expectClose(p.out, r.out, 1e-3, "out");
}

// Scores of 0: each sum of exponentials is the number of keys.
TEST(CpuAttention, LogOfSumsIsExactToTheLastBits) {
  for (int64_t keys = 1; keys < 2000; keys += keys / 3 + 1) {
    Case c;
    c.seqK = keys;
    Problem p(c);
    for (int64_t x = 0; x < c.headDim; ++x)
      p.q.set(x, 0);
    forEachKernelTable([&] {
      p.run();
      float expected = std::log(float(keys));
      EXPECT_NEAR(p.lse.get(0), expected, 3e-7f * expected) << keys;
    });
  }
}

TEST(CpuAttention, NanReachesTheOutput) {
  Case c;
  c.seqQ = c.seqK = 20;
  Problem p(c);
  p.k.set(5, NAN);
  p.run();
  for (int64_t i = 0; i < p.out.size(); ++i)
    ASSERT_TRUE(std::isnan(p.out.get(i)));
}

// The gradient of Σ out·dout by central differences of the definition.
TEST(CpuAttention, GradientsAgreeWithFiniteDifferences) {
  Case c;
  c.heads = 2;
  c.seqQ = 5;
  c.seqK = 6;
  c.causal = true;
  c.softcap = 2;
  c.mask = Mask::Additive;
  Problem p(c);
  p.run();
  auto objective = [&] {
    Reference r(p);
    double sum = 0;
    for (size_t i = 0; i < r.out.size(); ++i)
      sum += r.out[i] * p.dout.get(int64_t(i));
    return sum;
  };
  Buffer *inputs[] = {&p.q, &p.k, &p.v};
  Buffer *gradients[] = {&p.dq, &p.dk, &p.dv};
  for (int t = 0; t < 3; ++t)
    for (int64_t i = 0; i < inputs[t]->size(); i += 3) {
      double old = inputs[t]->get(i), h = 1.0 / 1024;
      inputs[t]->set(i, old + h);
      double above = objective(), up = inputs[t]->get(i);
      inputs[t]->set(i, old - h);
      double below = objective(), down = inputs[t]->get(i);
      inputs[t]->set(i, old);
      ASSERT_NEAR(gradients[t]->get(i), (above - below) / (up - down), 2e-5)
          << t << " " << i;
    }
}

TEST(CpuAttention, SameBitsForAnyNumberOfThreads) {
  for (int32_t dtype : {SHX_F32, SHX_BF16})
    for (int64_t heads : {1, 3}) {
      Case c;
      c.heads = 2 * heads;
      c.kvHeads = heads;
      c.seqQ = 300;
      c.seqK = 1100;
      c.headDim = 24;
      c.causal = true;
      c.dtype = dtype;
      rt::setPoolThreads(1);
      Problem one(c);
      one.run();
      for (int threads = 2; threads <= 4; ++threads) {
        rt::setPoolThreads(threads);
        Problem many(c);
        many.run();
        EXPECT_EQ(one.out, many.out);
        EXPECT_EQ(one.dq, many.dq);
        EXPECT_EQ(one.dk, many.dk);
        EXPECT_EQ(one.dv, many.dv);
      }
    }
}

} // namespace
