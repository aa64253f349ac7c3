// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Newton-Schulz: X ← X / max(‖X‖, ε), and then some times, X having no more
// rows than columns (else it is taken transposed),
//   G ← X·Xᵀ,  P ← b·G + c·G·G,  X ← a·X + P·X,
// in bf16 but for the sums of products, as torch.optim.Muon has it. The
// products are the library's; the kernels are nvcc's, their launches are the
// C++ compiler's. A column of P·X depends on the same column of X alone, so
// that X is replaced in place, some columns at a time.

#include "../kernels/Shapes.h"
#include "shardonnx/runtime/NewtonSchulzPlan.h"

#ifdef __CUDACC__

#include "../kernels/Device.cuh"

namespace shardonnx::rt::cuda {
namespace {

__device__ float roundToBf16(float value) {
  return Float<SHX_BF16>::widen(Float<SHX_BF16>::narrow(value));
}

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

// sums[b] = Σ x² over the b-th kSquaresChunk elements.
extern "C" __global__ void __launch_bounds__(kSliceThreads)
    shx_k_ns_squares(const void *x, double *sums, int64_t count) {
  __shared__ double shared[kWarp];
  int64_t begin = blockIdx.x * kSquaresChunk;
  int64_t length = min(kSquaresChunk, count - begin);
  const auto *from = typed<SHX_BF16>(x, begin);
  double sum = 0;
  for (int64_t i = threadIdx.x; i < length; i += kSliceThreads) {
    auto value = double(Float<SHX_BF16>::widen(from[i]));
    sum += value * value;
  }
  sum = blockSum(sum, shared);
  if (threadIdx.x == 0)
    sums[blockIdx.x] = sum;
}

// The norm is a number in bf16, too.
extern "C" __global__ void __launch_bounds__(kSliceThreads)
    shx_k_ns_divide(void *x, const double *squares, int64_t count) {
  int64_t i = int64_t(blockIdx.x) * kSliceThreads + threadIdx.x;
  if (i >= count)
    return;
  float norm = fmaxf(roundToBf16(float(sqrt(*squares))),
                     roundToBf16(shardonnx::kNewtonSchulzEpsilon));
  auto *at = typed<SHX_BF16>(x, i);
  *at = Float<SHX_BF16>::narrow(Float<SHX_BF16>::widen(*at) / norm);
}

// to = beta·from + alpha·sums; the rows of both have a stride, those of the
// sums, `columns` long, have no gaps.
extern "C" __global__ void __launch_bounds__(kSliceThreads)
    shx_k_ns_combine(const void *from, const float *sums, void *to,
                     int64_t rows, int64_t columns, int64_t stride, float alpha,
                     float beta) {
  int64_t i = int64_t(blockIdx.x) * kSliceThreads + threadIdx.x;
  if (i >= rows * columns)
    return;
  int64_t at = i / columns * stride + i % columns;
  float value = Float<SHX_BF16>::widen(*typed<SHX_BF16>(from, at));
  *typed<SHX_BF16>(to, at) =
      Float<SHX_BF16>::narrow(fmaf(beta, value, alpha * sums[i]));
}

#else

#include "../gemm/Gemm.h"
#include "../launch/Launch.h"
#include "../plan/NewtonSchulzPlan.h"
#include "NewtonSchulz.h"

namespace shardonnx::rt::cuda {
namespace {

constexpr float kA = kNewtonSchulzA, kB = kNewtonSchulzB, kC = kNewtonSchulzC;

class NewtonSchulz {
public:
  NewtonSchulz(Context &context, void *matrix, int64_t rows, int64_t columns,
               void *workspace, int64_t sums)
      : context(context), plan(planNewtonSchulz(rows, columns, sums)),
        x(static_cast<uint16_t *>(matrix)), rows(rows), columns(columns),
        space(static_cast<uint8_t *>(workspace)),
        gram(static_cast<uint16_t *>(workspace)),
        polynomial(reinterpret_cast<uint16_t *>(space + plan.polynomial)),
        sums(reinterpret_cast<float *>(space + plan.sums)) {}

  void normalize();
  void step() {
    takeGram();
    takePolynomial();
    if (isTall())
      updateRows();
    else
      updateColumns();
  }

private:
  bool isTall() const { return rows > columns; }
  void takeGram();
  void takePolynomial();
  void updateRows();
  void updateColumns();
  void multiply(const ShxGemm &desc, const void *a, const void *b, void *c) {
    gemm(context, desc, a, b, c, space + plan.product);
  }
  void combine(int64_t m, int64_t n, float alpha, float beta,
               const uint16_t *from, uint16_t *to, int64_t stride) {
    launch(context, "shx_k_ns_combine", blocksFor(m * n, kSliceThreads),
           kSliceThreads, 0, static_cast<const void *>(from), sums,
           static_cast<void *>(to), m, n, stride, alpha, beta);
  }

  Context &context;
  const NewtonSchulzPlan plan;
  uint16_t *x;
  int64_t rows, columns;
  uint8_t *space;
  uint16_t *gram, *polynomial;
  float *sums;
};

void NewtonSchulz::normalize() {
  int64_t count = rows * columns, chunks = blocksFor(count, kSquaresChunk);
  auto *squares = reinterpret_cast<double *>(space + plan.squares);
  auto *sum = reinterpret_cast<double *>(space + plan.squaresSum);
  launch(context, "shx_k_ns_squares", chunks, kSliceThreads, 0,
         static_cast<const void *>(x), squares, count);
  launch(context, "shx_k_sum_doubles", 1, kFinishThreads, 0,
         static_cast<const double *>(squares), chunks, sum);
  launch(context, "shx_k_ns_divide", blocksFor(count, kSliceThreads),
         kSliceThreads, 0, static_cast<void *>(x),
         static_cast<const double *>(sum), count);
}

void NewtonSchulz::takeGram() {
  ShxGemm desc =
      newtonSchulzProduct(plan.least, plan.least, plan.most, SHX_BF16);
  desc.transA = isTall(), desc.transB = !isTall();
  desc.lda = desc.ldb = columns;
  multiply(desc, x, x, gram);
}

void NewtonSchulz::takePolynomial() {
  int64_t n = plan.least;
  for (int64_t row = 0; row < n; row += plan.block) {
    int64_t m = std::min(plan.block, n - row);
    multiply(newtonSchulzProduct(m, n, n, SHX_F32), gram + row * n, gram, sums);
    combine(m, n, kC, kB, gram + row * n, polynomial + row * n, n);
  }
}

// X is the transpose of what the formulas call so.
void NewtonSchulz::updateRows() {
  int64_t n = plan.least;
  for (int64_t row = 0; row < rows; row += plan.block) {
    int64_t m = std::min(plan.block, rows - row);
    uint16_t *part = x + row * n;
    ShxGemm desc = newtonSchulzProduct(m, n, n, SHX_F32);
    desc.transB = 1;
    multiply(desc, part, polynomial, sums);
    combine(m, n, 1, kA, part, part, n);
  }
}

void NewtonSchulz::updateColumns() {
  int64_t m = plan.least;
  for (int64_t column = 0; column < columns; column += plan.block) {
    int64_t n = std::min(plan.block, columns - column);
    uint16_t *part = x + column;
    ShxGemm desc = newtonSchulzProduct(m, n, m, SHX_F32);
    desc.ldb = columns;
    multiply(desc, polynomial, part, sums);
    combine(m, n, 1, kA, part, part, columns);
  }
}

} // namespace

void orthogonalize(Context &context, void *matrix, int64_t rows,
                   int64_t columns, void *workspace, int64_t sums) {
  NewtonSchulz problem(context, matrix, rows, columns, workspace, sums);
  problem.normalize();
  for (int i = 0; i < kNewtonSchulzSteps; ++i)
    problem.step();
}

} // namespace shardonnx::rt::cuda

#endif
