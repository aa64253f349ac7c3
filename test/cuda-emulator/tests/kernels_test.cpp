// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels that nvcc and LLVM compiled, run by the emulator, against the host.

#include "Fixture.h"
#include <chrono>
#include <cmath>

using namespace shardonnx::emulator;

namespace {

class KernelTest : public DeviceTest,
                   public testing::WithParamInterface<const char *> {
protected:
  std::string kernelsPath() const override { return GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(, KernelTest,
                         testing::Values(SHARDONNX_EMULATOR_ALL_KERNELS),
                         [](const auto &info) {
                           return info.index ? "llvm" : "nvcc";
                         });

uint16_t bfloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
float fromBfloat(uint16_t value) {
  uint32_t bits = static_cast<uint32_t>(value) << 16;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}

TEST_P(KernelTest, RowSums) {
  constexpr int rows = 37, columns = 501;
  std::vector<float> in = randomFloats(rows * columns);
  Buffer<float> a(in), b(rows);
  CHECK_CU(
      launch(function("rowSums"), rows, 128, 0, a.address, b.address, columns));
  CHECK_CU(cuStreamSynchronize(stream));
  std::vector<float> out = b.read();
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    for (int c = 0; c < columns; ++c)
      sum += in[r * columns + c];
    EXPECT_NEAR(out[r], sum, 1e-3) << r;
  }
}

TEST_P(KernelTest, TiledMatmul) {
  constexpr int n = 48;
  std::vector<float> x = randomFloats(n * n, 1), y = randomFloats(n * n, 2);
  Buffer<float> a(x), b(y), c(n * n);
  CUfunction kernel = function("tiledMatmul");
  int size = n;
  void *params[] = {&a.address, &b.address, &c.address, &size};
  CHECK_CU(cuLaunchKernel(kernel, n / 16, n / 16, 1, 16, 16, 1, 0, stream,
                          params, nullptr));
  CHECK_CU(cuStreamSynchronize(stream));
  std::vector<float> out = c.read();
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int k = 0; k < n; ++k)
        sum += double(x[i * n + k]) * y[k * n + j];
      EXPECT_NEAR(out[i * n + j], sum, 1e-4);
    }
}

unsigned collatzOnHost(unsigned start) {
  unsigned steps = 0;
  for (unsigned long long x = start; x != 1; x = x % 2 ? 3 * x + 1 : x / 2)
    if (++steps > 1000)
      break;
  switch (start % 5) {
  case 0:
    return steps + 10;
  case 1:
    return steps * 3;
  case 2:
    return steps ^ 7;
  case 3:
    return 1000 - steps;
  default:
    return steps;
  }
}

TEST_P(KernelTest, DivergentLoopsAndSwitch) {
  constexpr int n = 1000;
  std::vector<unsigned> in(n);
  for (int i = 0; i < n; ++i)
    in[i] = static_cast<unsigned>(i + 1);
  Buffer<unsigned> a(in), b(n);
  CHECK_CU(launch(function("collatz"), (n + 95) / 96, 96, 0, a.address,
                  b.address, n));
  CHECK_CU(cuStreamSynchronize(stream));
  std::vector<unsigned> out = b.read();
  for (int i = 0; i < n; ++i)
    EXPECT_EQ(out[i], collatzOnHost(in[i])) << i;
}

TEST_P(KernelTest, MathFunctions) {
  constexpr int n = 777;
  std::vector<float> in = randomFloats(n);
  in[5] = 30.5f; // beyond the fast path of sin
  in[6] = 300000.0f;
  in[7] = 0;
  Buffer<float> a(in), b(n * 10);
  CHECK_CU(
      launch(function("mathFunctions"), 4, 256, 0, a.address, b.address, n));
  CHECK_CU(cuStreamSynchronize(stream));
  std::vector<float> out = b.read();
  for (int i = 0; i < n; ++i) {
    double x = in[i], y = std::fabs(x);
    double expected[10] = {std::exp(x),
                           std::tanh(x),
                           std::log(y + 0.1),
                           std::sin(x),
                           std::erf(x),
                           1 / std::sqrt(y + 0.5),
                           x / 3,
                           std::sqrt(x * x + 2),
                           std::pow(y, 1.5),
                           std::fmin(x, 0.25) + std::fmax(x, -0.25) +
                               std::floor(x) + std::nearbyint(x)};
    for (int k = 0; k < 10; ++k) {
      float got = out[i * 10 + k];
      if (std::isinf(static_cast<float>(expected[k])))
        EXPECT_EQ(got, static_cast<float>(expected[k]));
      else
        EXPECT_NEAR(got, expected[k], 3e-6 * std::fabs(expected[k]) + 1e-6)
            << "function " << k << " of " << x;
    }
  }
}

TEST_P(KernelTest, BFloatArithmetic) {
  constexpr int n = 300;
  std::vector<float> fx = randomFloats(n, 3), fy = randomFloats(n, 4);
  std::vector<uint16_t> x(n), y(n);
  for (int i = 0; i < n; ++i) {
    x[i] = bfloat(fx[i]);
    y[i] = bfloat(fy[i]);
  }
  Buffer<uint16_t> a(x), b(y), c(n);
  CHECK_CU(launch(function("bf16Axpy"), 3, 128, 0, a.address, b.address,
                  c.address, 1.25f, n));
  CHECK_CU(cuStreamSynchronize(stream));
  std::vector<uint16_t> out = c.read();
  for (int i = 0; i < n; ++i)
    EXPECT_EQ(out[i],
              bfloat(std::fma(1.25f, fromBfloat(x[i]), fromBfloat(y[i]))));
}

TEST_P(KernelTest, HalfPairs) {
  constexpr int n = 64;
  // Small integers: exact in f16, so the host needs no f16 of its own.
  std::vector<uint16_t> x(2 * n), y(2 * n);
  auto half = [](int value) { // |value| < 2048
    if (!value)
      return 0;
    int sign = value < 0 ? 0x8000 : 0, magnitude = std::abs(value);
    int exponent = 31 - __builtin_clz(static_cast<unsigned>(magnitude));
    return sign | (exponent + 15) << 10 |
           ((magnitude << (10 - exponent)) & 1023);
  };
  for (int i = 0; i < 2 * n; ++i) {
    x[i] = static_cast<uint16_t>(half(i % 23 - 11));
    y[i] = static_cast<uint16_t>(half(i % 7 - 3));
  }
  Buffer<uint16_t> a(x), b(y), c(2 * n);
  CHECK_CU(launch(function("halfPairs"), 1, 64, 0, a.address, b.address,
                  c.address, n));
  CHECK_CU(cuStreamSynchronize(stream));
  std::vector<uint16_t> out = c.read();
  for (int i = 0; i < 2 * n; ++i) {
    int p = i % 23 - 11, q = i % 7 - 3;
    EXPECT_EQ(out[i] & 0x7fff, half(std::max(p * q + p, p - q)) & 0x7fff) << i;
  }
}

TEST_P(KernelTest, TensorCore) {
  std::vector<float> fa = randomFloats(256, 5), fb = randomFloats(128, 6);
  std::vector<uint16_t> xa(256), xb(128);
  for (int i = 0; i < 256; ++i)
    xa[i] = bfloat(fa[i]);
  for (int i = 0; i < 128; ++i)
    xb[i] = bfloat(fb[i]);
  Buffer<uint16_t> a(xa), b(xb);
  Buffer<float> c(128);
  CHECK_CU(launch(function("tensorCore"), 1, 32, 0, a.address, b.address,
                  c.address));
  CHECK_CU(cuStreamSynchronize(stream));
  std::vector<float> out = c.read();
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n) {
      double sum = 0;
      for (int k = 0; k < 16; ++k)
        sum += double(fromBfloat(xa[m * 16 + k])) * fromBfloat(xb[k * 8 + n]);
      EXPECT_NEAR(out[m * 8 + n], sum, 1e-4) << m << " " << n;
    }
}

TEST_P(KernelTest, AsyncCopy) {
  std::vector<float> in = randomFloats(256);
  Buffer<float> a(in), b(256);
  CHECK_CU(
      launch(function("asyncReverse"), 1, 64, 1024, a.address, b.address, 1));
  CHECK_CU(cuStreamSynchronize(stream));
  std::vector<float> out = b.read();
  for (int i = 0; i < 256; ++i)
    EXPECT_EQ(out[i], in[(63 - i / 4) * 4 + i % 4]);
  // Without the wait nothing has arrived.
  CHECK_CU(
      launch(function("asyncReverse"), 1, 64, 1024, a.address, b.address, 0));
  CHECK_CU(cuStreamSynchronize(stream));
  EXPECT_TRUE(std::isnan(b.read()[0]));
}

TEST_P(KernelTest, Oddments) {
  Buffer<float> a(32);
  Buffer<unsigned> b(32);
  CHECK_CU(launch(function("oddments"), 1, 32, 0, a.address, b.address));
  CHECK_CU(cuStreamSynchronize(stream));
  std::vector<float> out = a.read();
  std::vector<unsigned> bits = b.read();
  for (unsigned i = 0; i < 32; ++i) {
    float once = static_cast<float>(1 << (i & 3));
    float expected = 3 * once + (i % 8) * 1.5f + (i ? 0 : 5 + 31 * 16);
    EXPECT_EQ(out[i], expected) << i;
    unsigned reversed = 0;
    for (unsigned k = 0; k < 5; ++k)
      reversed |= (i >> k & 1) << (4 - k);
    unsigned funnel = static_cast<unsigned>(((7ull << 32 | i) << 3) >> 32);
    unsigned permuted = i | 0x04u << 8 | 0u << 16 | 0x03u << 24;
    unsigned words[2] = {i, 0x01020304};
    unsigned char bytes[8];
    std::memcpy(bytes, words, 8);
    permuted = bytes[0] | bytes[4] << 8 | bytes[1] << 16 |
               static_cast<unsigned>(bytes[5]) << 24;
    unsigned clz = static_cast<unsigned>(__builtin_clz(i + 1));
    unsigned ffs = static_cast<unsigned>(__builtin_ffs(static_cast<int>(i)));
    EXPECT_EQ(bits[i], 16 + clz + ffs + reversed + funnel + permuted) << i;
  }
}

TEST_P(KernelTest, ModuleVariables) {
  CUfunction kernel = function("oddments");
  CUdeviceptr counter;
  size_t bytes;
  CHECK_CU(cuModuleGetGlobal(&counter, &bytes, module, "counter"));
  EXPECT_EQ(bytes, 4u);
  unsigned value = 100;
  CHECK_CU(cuMemcpyHtoD(counter, &value, 4));
  CHECK_CU(cuCtxSynchronize());
  Buffer<float> a(32);
  Buffer<unsigned> b(32);
  CHECK_CU(launch(kernel, 1, 32, 0, a.address, b.address));
  CHECK_CU(cuStreamSynchronize(stream));
  CHECK_CU(cuMemcpyDtoH(&value, counter, 4));
  EXPECT_EQ(value, 100u + 31 * 16);
}

/// Not a benchmark: slower than this and training in the emulator takes
/// minutes.
TEST_P(KernelTest, IsFastEnough) {
  Buffer<float> a(64 * 256);
  uint64_t before = shardonnxEmulatorInstructions();
  auto start = std::chrono::steady_clock::now();
  CHECK_CU(launch(function("spin"), 64, 256, 0, a.address, 2000));
  CHECK_CU(cuStreamSynchronize(stream));
  std::chrono::duration<double> passed =
      std::chrono::steady_clock::now() - start;
  double rate =
      double(shardonnxEmulatorInstructions() - before) / passed.count();
  RecordProperty("lane_instructions_per_second", std::to_string(rate));
  std::printf("%.0f million lane-instructions/s\n", rate / 1e6);
  EXPECT_GT(rate, 50e6);
}

} // namespace
