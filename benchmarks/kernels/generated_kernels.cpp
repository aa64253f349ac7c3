// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generated kernels beside the same loops as a C++ compiler makes them (-O3
// -march=native -ffast-math), one thread. Prints a table of microseconds.

#include "../../test/unit/kernel_harness.h"
#include "reference/Reference.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>

using namespace shardonnx;
using namespace shardonnx::test;

namespace {

/// Median microseconds of one call.
template <typename Fn> double timeOf(Fn call) {
  std::vector<double> times;
  for (int i = 0; i < 25; ++i) {
    auto start = std::chrono::steady_clock::now();
    call();
    std::chrono::duration<double, std::micro> spent =
        std::chrono::steady_clock::now() - start;
    times.push_back(spent.count());
  }
  std::nth_element(times.begin(), times.begin() + 12, times.end());
  return times[12];
}

void report(const char *name, double generated, double reference,
            double megabytes) {
  std::printf("%-28s %10.0f %10.0f %8.2f %8.1f\n", name, generated, reference,
              generated / reference, megabytes * 1e6 / generated * 1e-3);
}

/// The group on contiguous buffers filled with small numbers.
class Case {
public:
  explicit Case(const char *text) : group(text) {
    std::mt19937 random(1);
    mlir::SmallVector<mlir::MemRefType> layouts;
    auto add = [&](mlir::Type type) {
      auto tensor = mlir::cast<mlir::RankedTensorType>(type);
      buffers.push_back(Buffer::make(tensor, Layout::Contiguous, random));
      layouts.push_back(buffers.back().type);
      auto *values = reinterpret_cast<float *>(buffers.back().bytes.data());
      std::normal_distribution<float> normal;
      for (int64_t i = 0; i < tensor.getNumElements(); ++i)
        values[i] = normal(random);
    };
    for (mlir::Type type : group.fused->getOperandTypes())
      add(type);
    for (mlir::Type type : group.fused->getResultTypes())
      add(type);
    for (Buffer &buffer : buffers)
      args.push_back(&buffer);
    kernel = makeRunner(group.fused, layouts);
  }
  double time() {
    return timeOf([&] { kernel->run(args); });
  }
  float *data(unsigned i) {
    return reinterpret_cast<float *>(buffers[i].bytes.data());
  }

private:
  ParsedGroup group;
  std::vector<Buffer> buffers;
  mlir::SmallVector<Buffer *> args;
  std::unique_ptr<KernelRunner> kernel;
};

const char *kBiasGelu = R"(
  func.func @f(%a: tensor<1024x2048xf32>, %b: tensor<2048xf32>) {
    %0 = nn.fused rows [1024, 2048] (%x = %a : tensor<1024x2048xf32>, %y = %b : tensor<2048xf32>) -> tensor<1024x2048xf32> {
      %s = nn.add %x, %y : (tensor<1024x2048xf32>, tensor<2048xf32>) -> tensor<1024x2048xf32>
      %g = nn.gelu %s {tanh} : (tensor<1024x2048xf32>) -> tensor<1024x2048xf32>
      nn.yield %g : tensor<1024x2048xf32>
    }
    return
  })";

const char *kLayerNorm = R"(
  func.func @f(%a: tensor<1024x512xf32>, %w: tensor<512xf32>, %b: tensor<512xf32>) {
    %0 = nn.fused rows [1024, 512] (%x = %a : tensor<1024x512xf32>, %v = %w : tensor<512xf32>, %d = %b : tensor<512xf32>) -> tensor<1024x512xf32> {
      %m = nn.reduce_mean %x {axes = array<i64: 1>, keepdims} : (tensor<1024x512xf32>) -> tensor<1024x1xf32>
      %z = nn.sub %x, %m : (tensor<1024x512xf32>, tensor<1024x1xf32>) -> tensor<1024x512xf32>
      %q = nn.mul %z, %z : (tensor<1024x512xf32>, tensor<1024x512xf32>) -> tensor<1024x512xf32>
      %s = nn.reduce_mean %q {axes = array<i64: 1>, keepdims} : (tensor<1024x512xf32>) -> tensor<1024x1xf32>
      %e = nn.constant dense<1.0e-5> : tensor<f32>
      %t = nn.add %s, %e : (tensor<1024x1xf32>, tensor<f32>) -> tensor<1024x1xf32>
      %r = nn.rsqrt %t : (tensor<1024x1xf32>) -> tensor<1024x1xf32>
      %n = nn.mul %z, %r : (tensor<1024x512xf32>, tensor<1024x1xf32>) -> tensor<1024x512xf32>
      %o = nn.mul %n, %v : (tensor<1024x512xf32>, tensor<512xf32>) -> tensor<1024x512xf32>
      %p = nn.add %o, %d : (tensor<1024x512xf32>, tensor<512xf32>) -> tensor<1024x512xf32>
      nn.yield %p : tensor<1024x512xf32>
    }
    return
  })";

const char *kSoftmax = R"(
  func.func @f(%a: tensor<2048x256xf32>) {
    %0 = nn.fused rows [2048, 256] (%x = %a : tensor<2048x256xf32>) -> tensor<2048x256xf32> {
      %t = nn.reduce_max %x {axes = array<i64: 1>, keepdims} : (tensor<2048x256xf32>) -> tensor<2048x1xf32>
      %s = nn.sub %x, %t : (tensor<2048x256xf32>, tensor<2048x1xf32>) -> tensor<2048x256xf32>
      %e = nn.exp %s : (tensor<2048x256xf32>) -> tensor<2048x256xf32>
      %u = nn.reduce_sum %e {axes = array<i64: 1>, keepdims} : (tensor<2048x256xf32>) -> tensor<2048x1xf32>
      %i = nn.reciprocal %u : (tensor<2048x1xf32>) -> tensor<2048x1xf32>
      %p = nn.mul %e, %i : (tensor<2048x256xf32>, tensor<2048x1xf32>) -> tensor<2048x256xf32>
      nn.yield %p : tensor<2048x256xf32>
    }
    return
  })";

const char *kBiasGradient = R"(
  func.func @f(%a: tensor<1024x1536xf32>) {
    %0 = nn.fused columns [1024, 1536] (%x = %a : tensor<1024x1536xf32>) -> tensor<1536xf32> {
      %s = nn.reduce_sum %x {axes = array<i64: 0>} : (tensor<1024x1536xf32>) -> tensor<1536xf32>
      nn.yield %s : tensor<1536xf32>
    }
    return
  })";

void benchOptimizer(ShxDType state, double bytes) {
  constexpr int64_t kLength = 4 << 20;
  std::unique_ptr<OptimizerRunner> kernel =
      makeOptimizerRunner({Optimizer::AdamW, SHX_F32, state});
  std::vector<float> p(kLength, 1), g(kLength, 0.1f), m(kLength), v(kLength);
  float scalars[SHX_NUM_SCALARS] = {
      1, 1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.1f, 0.05f, 1, 0, 0, 0.1f, 0.05f};
  scalars[SHX_CLIP_VALUE] = std::numeric_limits<float>::infinity();
  std::vector<float> scales[2] = {std::vector<float>(kLength / kStateBlock),
                                  std::vector<float>(kLength / kStateBlock)};
  OptimizerSlices slices{p,
                         g,
                         {rawBytes(m), rawBytes(v)},
                         {}, // in f32 products read the masters
                         {rawBytes(scales[0]), rawBytes(scales[1])}};
  double generated = timeOf([&] { kernel->run(slices, scalars, 0, kLength); });
  double reference = timeOf([&] {
    referenceAdamW(p.data(), g.data(), m.data(), v.data(), scalars, kLength);
  });
  std::string name = std::string("AdamW 4 M, state ") + spell(state);
  report(name.c_str(), generated, reference, kLength * bytes * 1e-6);
}

} // namespace

int main() {
  std::printf("%-28s %10s %10s %8s %8s\n", "kernel", "ours us", "C++ us",
              "ratio", "GB/s");
  Case gelu(kBiasGelu);
  report("bias + GELU 1024x2048", gelu.time(), timeOf([&] {
           referenceBiasGelu(gelu.data(0), gelu.data(1), gelu.data(2), 1024,
                             2048);
         }),
         1024 * 2048 * 8e-6);
  Case norm(kLayerNorm);
  report("layer norm 1024x512", norm.time(), timeOf([&] {
           referenceLayerNorm(norm.data(0), norm.data(1), norm.data(2),
                              norm.data(3), 1024, 512);
         }),
         1024 * 512 * 8e-6);
  Case softmax(kSoftmax);
  report("softmax 2048x256", softmax.time(), timeOf([&] {
           referenceSoftmax(softmax.data(0), softmax.data(1), 2048, 256);
         }),
         2048 * 256 * 8e-6);
  Case columns(kBiasGradient);
  report("bias gradient 1024x1536", columns.time(), timeOf([&] {
           referenceColumnSum(columns.data(0), columns.data(1), 1024, 1536);
         }),
         1024 * 1536 * 4e-6);
  benchOptimizer(SHX_F32, 28);
  benchOptimizer(SHX_BF16, 20);
  benchOptimizer(SHX_I8, 16);
}
