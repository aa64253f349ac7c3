// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Strided copies on the device: every pair of types, transpositions, addresses
// that do not allow 16-byte accesses.

#include "copy_problem.h"
#include "cuda_kernels_util.h"

using namespace shardonnx;
using namespace shardonnx::test;

namespace {

Buffer copyOnDevice(const ShxCopy &d, const Buffer &src, const Buffer &dst,
                    int64_t srcOffset = 0, int64_t dstOffset = 0) {
  CudaDevice &device = CudaDevice::get();
  DeviceBuffer from(src, srcOffset), to(dst, dstOffset);
  device.call([&] { shx_copy(&device.context(), &d, from.data(), to.data()); });
  return to.download();
}

void expectEqual(const Buffer &actual, const std::vector<double> &expected) {
  for (int64_t i = 0; i < actual.size(); ++i)
    ASSERT_EQ(actual.get(i), expected[size_t(i)]) << "at " << i;
}

void checkCopy(std::mt19937 &random, bool large, int32_t from, int32_t to) {
  CopyProblem p(random, large);
  p.d.srcDtype = from;
  p.d.dstDtype = to;
  p.d.accumulate = from <= SHX_F16 && to <= SHX_F16 && random() % 3 == 0;
  SCOPED_TRACE(testing::Message()
               << "rank " << p.d.rank << ", " << from << " to " << to);
  Buffer src(from, p.sizeSrc), dst(to, p.sizeDst);
  src.fillRandom(random, from == SHX_I64 || from == SHX_I32 ? 1000 : 2);
  dst.fillRandom(random, 2);
  expectEqual(copyOnDevice(p.d, src, dst, random() % 3 == 0 ? bytesOf(from) : 0,
                           random() % 3 == 0 ? bytesOf(to) : 0),
              p.expected(src, dst));
}

TEST(CudaCopy, EveryPairOfTypes) {
  std::mt19937 random(8);
  for (int32_t from = SHX_F32; from <= SHX_I1; ++from)
    for (int32_t to = SHX_F32; to <= SHX_I1; ++to)
      for (int i = 0; i < 8; ++i) {
        checkCopy(random, false, from, to);
        if (HasFatalFailure())
          return;
      }
}

TEST(CudaCopy, Large) {
  std::mt19937 random(9);
  for (int i = 0; i < 30; ++i) {
    int32_t dtype = pick(random, {SHX_F32, SHX_BF16, SHX_I64});
    CopyProblem p(random, true);
    if (p.sizeDst > 100000)
      continue;
    p.d.srcDtype = p.d.dstDtype = dtype;
    Buffer src(dtype, p.sizeSrc), dst(dtype, p.sizeDst);
    src.fillRandom(random, 100);
    expectEqual(copyOnDevice(p.d, src, dst), p.expected(src, dst));
    if (HasFatalFailure())
      return;
  }
}

// [outer, a, b] to [outer, b, a].
ShxCopy transposition(int64_t outer, int64_t a, int64_t b, int32_t dtype) {
  ShxCopy d{};
  d.rank = 3;
  d.dims[0] = outer, d.dims[1] = a, d.dims[2] = b;
  d.srcStride[0] = d.dstStride[0] = a * b;
  d.srcStride[1] = b, d.srcStride[2] = 1;
  d.dstStride[1] = 1, d.dstStride[2] = a;
  d.srcDtype = d.dstDtype = dtype;
  return d;
}

TEST(CudaCopy, Transposes) {
  std::mt19937 random(12);
  for (int32_t dtype : {SHX_BF16, SHX_F32, SHX_I64, SHX_I1})
    for (auto [a, b] :
         {std::pair(64, 64), {72, 200}, {130, 65}, {8, 8}, {3, 100}, {100, 3}})
      for (int64_t offset : {0, 1}) {
        SCOPED_TRACE(testing::Message() << a << " by " << b << " of " << dtype);
        ShxCopy d = transposition(2, a, b, dtype);
        Buffer src(dtype, 2 * a * b), dst(dtype, 2 * a * b);
        src.fillRandom(random, 100);
        Buffer result = copyOnDevice(d, src, dst, offset * bytesOf(dtype), 0);
        for (int64_t i = 0; i < 2 * a * b; ++i) {
          int64_t o = i / (a * b), x = i / a % b, y = i % a;
          ASSERT_EQ(result.get(i), src.get(o * a * b + y * b + x)) << i;
        }
      }
}

TEST(CudaCopy, Contiguous) {
  std::mt19937 random(10);
  for (int64_t size : {1, 15, 16, 4096, 30001})
    for (int32_t to : {SHX_BF16, SHX_F32}) {
      ShxCopy d{};
      d.rank = 1;
      d.dims[0] = size;
      d.srcStride[0] = d.dstStride[0] = 1;
      d.srcDtype = SHX_BF16;
      d.dstDtype = to;
      Buffer src(SHX_BF16, size), dst(to, size);
      src.fillRandom(random);
      expectEqual(copyOnDevice(d, src, dst), src.values());
    }
}

TEST(CudaCopy, NarrowingKeepsSpecialValues) {
  const double values[] = {
      0.0,    -0.0,  INFINITY, -INFINITY,     1e-40, 65504, 65520, 1e39,
      3.4e38, -1e-8, 6e-8,     1 + 1.0 / 256, NAN,   2,     -3,    0.1};
  for (int32_t to : {SHX_BF16, SHX_F16}) {
    ShxCopy d{};
    d.rank = 1;
    d.dims[0] = 16;
    d.srcStride[0] = d.dstStride[0] = 1;
    d.dstDtype = to;
    Buffer src(SHX_F32, 16), dst(to, 16);
    for (int i = 0; i < 16; ++i)
      src.set(i, values[i]);
    Buffer result = copyOnDevice(d, src, dst);
    double largest = to == SHX_F16 ? 65504 : 3.3895313892515355e38;
    for (int i = 0; i < 16; ++i) {
      double expected = roundToDtype(to, src.get(i));
      if (std::fabs(expected) > largest)
        expected = std::copysign(INFINITY, expected);
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(result.get(i)));
      else
        EXPECT_EQ(result.get(i), expected) << values[i];
    }
  }
}

TEST(CudaZero, FillsExactly) {
  CudaDevice &device = CudaDevice::get();
  for (int64_t bytes : {0, 1, 100, 10003})
    for (int64_t offset : {0, 3}) {
      Buffer ones(SHX_I1, bytes);
      ones.fill(1);
      DeviceBuffer buffer(ones, offset);
      device.call([&] { shx_zero(&device.context(), buffer.data(), bytes); });
      Buffer result = buffer.download();
      for (int64_t i = 0; i < bytes; ++i)
        ASSERT_EQ(result.get(i), 0);
    }
}

} // namespace
