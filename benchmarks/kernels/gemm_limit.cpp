// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the cores do at best in matrix products, as one JSON object: for f32 and
// bf16 the GFLOP/s of our product of 2048 x 2048 x 2048, and of multiply-adds
// whose operands all stay in registers, on every thread at once. The best of
// several runs counts: the others were disturbed. OMP_NUM_THREADS sets the
// threads, SECONDS (an argument, 2) how long each of them is measured.

#include "../../runtime/cpu/kernels/Kernels.h"
#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Workspace.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <immintrin.h>
#include <memory>
#include <sched.h>
#include <thread>
#include <vector>

using namespace shardonnx;

namespace {

constexpr int64_t kSize = 2048;
constexpr int64_t kRounds = 1 << 20; // of a loop of instructions
constexpr int kSums = 12; // independent ones, more than the latency asks for

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The most work a second of `call`, which does `work`, after a call that does
// not count.
template <typename Call>
double best(double seconds, double work, const Call &call) {
  call();
  double fastest = 1e9;
  for (double begin = now(), end = begin + seconds; begin < end;) {
    call();
    double then = now();
    fastest = std::min(fastest, then - begin);
    begin = then;
  }
  return work / fastest * 1e-9;
}

// ---- Instructions. Each function does kRounds of kSums multiply-adds and
// returns the floating-point operations. What it computes is stored, so that
// it is computed.

volatile float sink;

__attribute__((target("avx2,fma"))) double addAvx2() {
  __m256 sums[kSums], x = _mm256_set1_ps(0.5F);
  for (__m256 &sum : sums)
    sum = x;
  for (int64_t round = 0; round < kRounds; ++round)
#pragma GCC unroll 12
    for (__m256 &sum : sums)
      sum = _mm256_fmadd_ps(sum, x, x);
  for (__m256 &sum : sums)
    sink = _mm256_cvtss_f32(sum);
  return 2.0 * 8 * kSums * kRounds;
}

__attribute__((target("avx512f"))) double addAvx512() {
  __m512 sums[kSums], x = _mm512_set1_ps(0.5F);
  for (__m512 &sum : sums)
    sum = x;
  for (int64_t round = 0; round < kRounds; ++round)
#pragma GCC unroll 12
    for (__m512 &sum : sums)
      sum = _mm512_fmadd_ps(sum, x, x);
  for (__m512 &sum : sums)
    sink = _mm512_cvtss_f32(sum);
  return 2.0 * 16 * kSums * kRounds;
}

__attribute__((target("avx512f,avx512bf16"))) double addBf16() {
  __m512 sums[kSums];
  auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3000)); // small
  for (__m512 &sum : sums)
    sum = _mm512_setzero_ps();
  for (int64_t round = 0; round < kRounds; ++round)
#pragma GCC unroll 12
    for (__m512 &sum : sums)
      sum = _mm512_dpbf16_ps(sum, x, x);
  for (__m512 &sum : sums)
    sink = _mm512_cvtss_f32(sum);
  return 2.0 * 32 * kSums * kRounds;
}

// Four tiles of sums, as our product has them.
__attribute__((target("avx512f,amx-tile,amx-bf16"))) double addAmx() {
  struct alignas(64) {
    uint8_t palette, start, zero[14];
    uint16_t columns[16]; // in bytes
    uint8_t rows[16];
  } shape{};
  shape.palette = 1;
  for (int tile = 0; tile < 8; ++tile)
    shape.columns[tile] = 64, shape.rows[tile] = 16;
  _tile_loadconfig(&shape);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  constexpr int64_t kTileRounds = kRounds / 16;
  for (int64_t round = 0; round < kTileRounds; ++round) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  alignas(64) float values[256];
  _tile_stored(0, values, 64);
  sink = values[0];
  _tile_release();
  return 2.0 * 16 * 16 * 32 * 4 * kTileRounds;
}

using Instructions = double (*)();

// Of bf16 where the CPU has none: what a product widened to f32 can reach.
Instructions widest(int32_t dtype) {
  if (dtype == SHX_BF16 && rt::hasAmx())
    return addAmx;
  if (dtype == SHX_BF16 && rt::hasBf16())
    return addBf16;
  return rt::hasV4() ? addAvx512 : addAvx2;
}

double instructionRate(int32_t dtype, int threads, double seconds) {
  Instructions instructions = widest(dtype);
  double work = instructions() * threads;
  return best(seconds, work, [&] {
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i)
      others.emplace_back([&] { instructions(); });
    instructions();
    for (std::thread &other : others)
      other.join();
  });
}

// ---- Our product.

struct Free {
  void operator()(void *memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

// Aligned to pages; every byte is 0x3d, which is a small number of any dtype.
Memory numbers(int64_t bytes) {
  auto rounded = static_cast<size_t>((bytes + 4095) / 4096 * 4096);
  Memory memory(std::aligned_alloc(4096, rounded));
  auto *begin = static_cast<unsigned char *>(memory.get());
  std::fill(begin, begin + rounded, 0x3d);
  return memory;
}

double productRate(int32_t dtype, double seconds) {
  ShxGemm product{};
  product.m = product.n = product.k = kSize;
  product.lda = product.ldb = product.ldc = kSize;
  product.dtypeA = product.dtypeB = product.dtypeC = dtype;
  int64_t bytes = kSize * kSize * (dtype == SHX_F32 ? 4 : 2);
  Memory a = numbers(bytes), b = numbers(bytes), c = numbers(bytes);
  Memory workspace =
      numbers(std::max<int64_t>(cpuLibraries().gemm(product), 4096));
  return best(seconds, 2.0 * kSize * kSize * kSize, [&] {
    shx_gemm(nullptr, &product, a.get(), b.get(), c.get(), workspace.get());
  });
}

int threadsToUse() {
  const char *wanted = std::getenv("OMP_NUM_THREADS");
  int count = wanted ? std::atoi(wanted) : 0;
  cpu_set_t set;
  if (count < 1 && sched_getaffinity(0, sizeof set, &set) == 0)
    count = CPU_COUNT(&set);
  return std::max(count, 1);
}

} // namespace

int main(int count, char **words) {
  double seconds = count > 1 ? std::atof(words[1]) : 2.0;
  if (count > 2 || !(seconds > 0)) {
    std::fputs("gemm_limit: error: one argument is expected, the seconds to "
               "measure for\n",
               stderr);
    return 2;
  }
  int threads = threadsToUse();
  std::printf("{\"threads\": %d", threads);
  for (int32_t dtype : {SHX_F32, SHX_BF16})
    std::printf(", \"%s\": {\"product\": %.0f, \"instructions\": %.0f}",
                dtype == SHX_F32 ? "f32" : "bf16", productRate(dtype, seconds),
                instructionRate(dtype, threads, seconds));
  std::printf("}\n");
  return 0;
}
