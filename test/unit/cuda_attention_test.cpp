// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Our own attention kernels on the device, forward and backward, against a
// score matrix in double; the same bits twice; strides and addresses that do
// not allow wide accesses.

#include "../../runtime/cuda/attention/Attention.h"
#include "attention_problem.h"
#include "cuda_kernels_util.h"
#include "shardonnx/runtime/Workspace.h"

using namespace shardonnx;
using namespace shardonnx::test;

namespace {

struct Problem : AttentionProblem {
  using AttentionProblem::AttentionProblem;

  // `offset`: bytes behind a multiple of 256 that the tensors begin at.
  void run(int64_t offset = 0) {
    CudaDevice &device = CudaDevice::get();
    DeviceBuffer dq_(dq, offset), dk_(dk, offset), dv_(dv, offset);
    DeviceBuffer q_(q, offset), k_(k, offset), v_(v, offset);
    DeviceBuffer out_(out, offset), dout_(dout, offset), lse_(lse), mask_(mask);
    DeviceBytes forward(cudaLibraries().attention(desc));
    DeviceBytes workspace(cudaLibraries().attentionGrad(desc));
    const void *given = c.mask == Mask::None ? nullptr : mask_.data();
    auto *sums = static_cast<float *>(lse_.data());
    device.call([&] {
      shx_attention(&device.context(), &desc, q_.data(), k_.data(), v_.data(),
                    given, out_.data(), sums, forward.data());
      shx_attention_grad(&device.context(), &desc, q_.data(), k_.data(),
                         v_.data(), given, out_.data(), sums, dout_.data(),
                         dq_.data(), dk_.data(), dv_.data(), workspace.data());
    });
    EXPECT_TRUE(workspace.intact());
    out_.download(out);
    lse_.download(lse);
    dq_.download(dq);
    dk_.download(dk);
    dv_.download(dv);
  }
};

void check(const AttentionCase &c, int64_t offset = 0) {
  SCOPED_TRACE(testing::Message() << c << " offset " << offset);
  Problem p(c);
  p.run(offset);
  expectResults(p, AttentionReference(p));
}

TEST(CudaAttention, GeneratedShapes) {
  std::mt19937 random(11);
  for (int i = 0; i < 40; ++i) {
    AttentionCase c = randomAttention(random);
    check(c, random() % 3 == 0 ? bytesOf(c.dtype) : 0);
    if (HasFatalFailure())
      return;
  }
}

TEST(CudaAttention, SizeOne) { check(AttentionCase()); }

// Each of the head dims that kernels are made for, and one that fills none.
TEST(CudaAttention, HeadDims) {
  for (int32_t dtype : {SHX_F32, SHX_BF16, SHX_F16})
    for (int64_t dim : {8, 64, 72, 128, 136, 256}) {
      AttentionCase c;
      c.heads = 2;
      c.seqQ = 70;
      c.seqK = 75;
      c.headDim = dim;
      c.causal = true;
      c.dtype = dtype;
      check(c);
    }
}

// Tiles that every query sees, tiles that none sees, and those between.
TEST(CudaAttention, ManyTiles) {
  AttentionCase c;
  c.heads = 2;
  c.kvHeads = 1;
  c.seqQ = 200;
  c.seqK = 330;
  c.headDim = 32;
  check(c);
  c.causal = true;
  check(c);
  c.window = 70;
  check(c);
  c.seqQ = 400; // the first queries see nothing
  check(c);
}

// Whole tiles lie outside a query's document.
TEST(CudaAttention, Documents) {
  for (int32_t dtype : {SHX_F32, SHX_BF16}) {
    AttentionCase c;
    c.batch = 2;
    c.heads = 2;
    c.kvHeads = 1;
    c.seqQ = c.seqK = 300;
    c.causal = true;
    c.mask = Mask::FirstKeys;
    c.dtype = dtype;
    check(c);
  }
}

TEST(CudaAttention, FullyMaskedRowsGiveZeros) {
  AttentionCase c;
  c.heads = 2;
  c.seqQ = 70;
  c.seqK = 30;
  c.mask = Mask::Bool;
  Problem p(c);
  for (int64_t i : {0, 3, 69})
    for (int64_t j = 0; j < c.seqK; ++j)
      p.mask.set(i * c.seqK + j, 0);
  p.run();
  expectResults(p, AttentionReference(p));
  for (int64_t i : {0, 3, 69})
    for (int64_t x = 0; x < c.heads * c.headDim; ++x) {
      EXPECT_EQ(p.out.get(i * c.heads * c.headDim + x), 0);
      EXPECT_EQ(p.dq.get(i * c.heads * c.headDim + x), 0);
    }
}

TEST(CudaAttention, NumbersThatHideEveryKey) { checkUnseenQueries<Problem>(); }

// Without a guard a softmax of nothing is NaN, and so is its gradient.
TEST(CudaAttention, UnguardedFullyMaskedRowsGiveNaN) {
  for (int32_t dtype : {SHX_F32, SHX_F16}) {
    AttentionCase c;
    c.seqQ = c.seqK = 20;
    c.mask = Mask::Bool;
    c.dtype = dtype;
    Problem p(c);
    p.desc.flags = SHX_ATTENTION_UNGUARDED;
    for (int64_t i = 0; i < c.seqQ; ++i)
      for (int64_t j = 0; j < c.seqK; ++j)
        p.mask.set(i * c.seqK + j, i != 3);
    p.run();
    for (int64_t i : {2, 3})
      for (int64_t x = 0; x < c.headDim; ++x) {
        EXPECT_EQ(std::isnan(p.out.get(i * c.headDim + x)), i == 3);
        EXPECT_EQ(std::isnan(p.dq.get(i * c.headDim + x)), i == 3);
      }
    EXPECT_TRUE(std::isnan(p.dv.get(0)));
  }
}

// One row of a mask for all queries, as padding of a batch is given.
TEST(CudaAttention, MaskOfKeysAlone) {
  AttentionCase c;
  c.heads = 2;
  c.seqQ = 33;
  c.seqK = 40;
  c.mask = Mask::Additive;
  Problem p(c);
  p.desc.maskStride[2] = 0;
  p.run();
  expectResults(p, AttentionReference(p));
}

TEST(CudaAttention, LargeScoresDoNotOverflow) {
  AttentionCase c;
  c.seqQ = c.seqK = 50;
  Problem p(c);
  for (int64_t i = 0; i < p.q.size(); ++i)
    p.q.set(i, p.q.get(i) * 300);
  p.run();
  expectClose(p.out, AttentionReference(p).out, 1e-3, "out");
}

TEST(CudaAttention, NanReachesTheOutput) {
  AttentionCase c;
  c.seqQ = c.seqK = 20;
  Problem p(c);
  p.k.set(5, NAN);
  p.run();
  for (int64_t i = 0; i < p.out.size(); ++i)
    ASSERT_TRUE(std::isnan(p.out.get(i)));
}

TEST(CudaAttention, SameBitsTwice) {
  AttentionCase c;
  c.heads = 4;
  c.kvHeads = 2;
  c.seqQ = c.seqK = 150;
  c.headDim = 24;
  c.causal = true;
  c.dtype = SHX_BF16;
  Problem one(c), two(c);
  one.run();
  two.run();
  EXPECT_EQ(one.out, two.out);
  EXPECT_EQ(one.lse, two.lse);
  EXPECT_EQ(one.dq, two.dq);
  EXPECT_EQ(one.dk, two.dk);
  EXPECT_EQ(one.dv, two.dv);
}

// With cuDNN where there is one that takes the device, which the emulated one
// is not; the same results anyhow.
TEST(CudaAttention, CudnnOrNot) {
  rt::cuda::Attention attention(CudaDevice::get().context());
  CudaDevice::get().context().attention = &attention;
  AttentionCase c;
  c.heads = 4;
  c.kvHeads = 2;
  c.seqQ = c.seqK = 70;
  c.headDim = 64;
  c.causal = true;
  c.dtype = SHX_BF16;
  check(c);
  c.headMajor = true;
  check(c);
  CudaDevice::get().context().attention = nullptr;
}

TEST(CudaAttention, RefusesLargerHeadDims) {
  AttentionCase c;
  c.headDim = 264;
  Problem p(c);
  EXPECT_THROW(p.run(), rt::Error);
}

} // namespace
