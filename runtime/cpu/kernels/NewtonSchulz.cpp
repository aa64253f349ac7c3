// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Newton-Schulz, as torch.optim.Muon has it: X ← X / max(‖X‖, ε), and then some
// times, X having no more rows than columns (else it is taken transposed),
//   G ← X·Xᵀ,  P ← b·G + c·G·G,  X ← a·X + P·X,
// all in bf16 but for the sums of products. A column of P·X depends on the same
// column of X alone, so that X is replaced in place, some columns at a time.

#include "NewtonSchulz.h"
#include "Matrix.h"
#include "Product.h"
#include "shardonnx/runtime/NewtonSchulzPlan.h"
#include <algorithm>
#include <vector>

namespace shardonnx::rt {
namespace {

constexpr float kA = kNewtonSchulzA, kB = kNewtonSchulzB, kC = kNewtonSchulzC;
constexpr int64_t kChunk = 1024; // elements of a row at a time, in f32

// Calls body(values, at, count) with the elements of a row in f32, a chunk at a
// time.
template <typename Body>
void forChunks(const uint16_t *row, int64_t length, const Body &body) {
  float values[kChunk];
  for (int64_t at = 0; at < length; at += kChunk) {
    int64_t count = std::min(kChunk, length - at);
    kernels().widen(SHX_BF16, row + at, values, count);
    body(values, at, count);
  }
}

float roundToBf16(float value) {
  uint16_t rounded;
  kernels().narrow(SHX_BF16, &value, &rounded, 1);
  kernels().widen(SHX_BF16, &rounded, &value, 1);
  return value;
}

class NewtonSchulz {
public:
  NewtonSchulz(uint16_t *matrix, int64_t rows, int64_t columns, void *workspace)
      : plan(planNewtonSchulz(rows, columns)), x(matrix), rows(rows),
        columns(columns), isTall(rows > columns),
        gram(static_cast<uint16_t *>(workspace)),
        polynomial(gram + plan.polynomial / 2),
        sums(reinterpret_cast<float *>(gram + plan.sums / 2)),
        productSpace(gram + plan.product / 2) {}

  void normalize() const;
  void step() const {
    takeGram();
    takePolynomial();
    if (isTall)
      updateRows();
    else
      updateColumns();
  }

private:
  void takeGram() const;
  void takePolynomial() const;
  void updateRows() const;
  void updateColumns() const;
  // sums = A·B, of so many rows and columns, through `least`.
  void multiplyInto(int64_t m, int64_t n, const ProductOperand &a,
                    const ProductOperand &b) const {
    multiply({m, n, plan.least, a, b, sums, n}, productSpace);
  }
  // to = beta·from + alpha·sums, row by row.
  void combine(int64_t m, int64_t n, float alpha, float beta,
               const uint16_t *from, uint16_t *to, int64_t stride) const;

  const NewtonSchulzPlan plan;
  uint16_t *x;
  int64_t rows, columns;
  bool isTall;
  uint16_t *gram, *polynomial;
  float *sums;
  void *productSpace;
};

// The norm is a number in bf16, too.
void NewtonSchulz::normalize() const {
  std::vector<double> squares(static_cast<size_t>(rows));
  parallelRange(rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      double sum = 0;
      forChunks(x + row * columns, columns,
                [&](const float *values, int64_t, int64_t count) {
                  for (int64_t i = 0; i < count; ++i)
                    sum += double(values[i]) * double(values[i]);
                });
      squares[static_cast<size_t>(row)] = sum;
    }
  });
  double sum = 0;
  for (double square : squares)
    sum += square;
  float norm = std::max(roundToBf16(static_cast<float>(std::sqrt(sum))),
                        roundToBf16(kNewtonSchulzEpsilon));
  parallelRange(rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      uint16_t *to = x + row * columns;
      forChunks(to, columns, [&](float *values, int64_t at, int64_t count) {
        for (int64_t i = 0; i < count; ++i)
          values[i] /= norm;
        kernels().narrow(SHX_BF16, values, to + at, count);
      });
    }
  });
}

void NewtonSchulz::takeGram() const {
  Product product{};
  product.m = product.n = product.cStride = plan.least;
  product.k = plan.most;
  product.a = leftOperand(SHX_BF16, x, columns, isTall);
  product.b = rightOperand(SHX_BF16, x, columns, !isTall);
  product.c = gram;
  product.cDtype = SHX_BF16;
  multiply(product, productSpace);
}

void NewtonSchulz::takePolynomial() const {
  int64_t n = plan.least;
  for (int64_t row = 0; row < n; row += plan.block) {
    int64_t m = std::min(plan.block, n - row);
    multiplyInto(m, n, leftOperand(SHX_BF16, gram + row * n, n, false),
                 rightOperand(SHX_BF16, gram, n, false));
    combine(m, n, kC, kB, gram + row * n, polynomial + row * n, n);
  }
}

// X is the transpose of what the formulas call so.
void NewtonSchulz::updateRows() const {
  int64_t n = plan.least;
  for (int64_t row = 0; row < rows; row += plan.block) {
    int64_t m = std::min(plan.block, rows - row);
    uint16_t *part = x + row * n;
    multiplyInto(m, n, leftOperand(SHX_BF16, part, n, false),
                 rightOperand(SHX_BF16, polynomial, n, true));
    combine(m, n, 1, kA, part, part, n);
  }
}

void NewtonSchulz::updateColumns() const {
  int64_t m = plan.least;
  for (int64_t column = 0; column < columns; column += plan.block) {
    int64_t n = std::min(plan.block, columns - column);
    uint16_t *part = x + column;
    multiplyInto(m, n, leftOperand(SHX_BF16, polynomial, m, false),
                 rightOperand(SHX_BF16, part, columns, false));
    combine(m, n, 1, kA, part, part, columns);
  }
}

void NewtonSchulz::combine(int64_t m, int64_t n, float alpha, float beta,
                           const uint16_t *from, uint16_t *to,
                           int64_t stride) const {
  parallelRange(m, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      forChunks(from + row * stride, n,
                [&](float *values, int64_t at, int64_t count) {
                  const float *product = sums + row * n + at;
                  for (int64_t i = 0; i < count; ++i)
                    values[i] = beta * values[i] + alpha * product[i];
                  kernels().narrow(SHX_BF16, values, to + row * stride + at,
                                   count);
                });
  });
}

} // namespace

void orthogonalize(uint16_t *matrix, int64_t rows, int64_t columns,
                   void *workspace) {
  NewtonSchulz problem(matrix, rows, columns, workspace);
  problem.normalize();
  for (int i = 0; i < kNewtonSchulzSteps; ++i)
    problem.step();
}

} // namespace shardonnx::rt
