// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Newton-Schulz against torch.optim.Muon's (newton_schulz/record.py), and of
// matrices that are multiplied in parts against whole products: all with each
// set of instructions.

#include "../../runtime/cpu/kernels/NewtonSchulz.h"
#include "../../runtime/cpu/kernels/Product.h"
#include "cpu_kernels_util.h"
#include "newton_schulz/reference.h"
#include "shardonnx/runtime/NewtonSchulzPlan.h"
#include <gtest/gtest.h>

#include <cmath>

using namespace shardonnx;
using namespace shardonnx::test;
using namespace shardonnx::test::newton_schulz;

namespace {

std::vector<uint16_t> orthogonal(int64_t rows, int64_t columns) {
  std::vector<uint16_t> matrix = matrixOf(rows, columns);
  auto bytes = static_cast<size_t>(planNewtonSchulz(rows, columns).bytes);
  void *workspace = std::aligned_alloc(64, bytes);
  rt::orthogonalize(matrix.data(), rows, columns, workspace);
  std::free(workspace);
  return matrix;
}

TEST(NewtonSchulz, IsAsRecorded) {
  for (const Recorded &expected : recorded())
    forEachProductTable([&] {
      expectAsRecorded(expected, orthogonal(expected.rows, expected.columns));
    });
}

// A·B of m x k by k x n in f32, whole.
std::vector<float> whole(int64_t m, int64_t n, int64_t k, rt::ProductOperand a,
                         rt::ProductOperand b) {
  std::vector<float> sums(static_cast<size_t>(m * n));
  Workspace workspace(rt::planProduct(m, n, k, SHX_F32).bytes);
  rt::multiply({m, n, k, a, b, sums.data(), n}, workspace.data());
  return sums;
}

// The formulas with every product taken at once. Sums have the same order, so
// the bits must be the same.
std::vector<uint16_t> inOnePart(int64_t rows, int64_t columns) {
  std::vector<uint16_t> x = matrixOf(rows, columns);
  bool tall = rows > columns;
  int64_t n = std::min(rows, columns), most = std::max(rows, columns);
  double squares = 0;
  for (uint16_t value : x)
    squares += double(wide(value)) * double(wide(value));
  float norm = wide(narrow(float(std::sqrt(squares))));
  for (uint16_t &value : x)
    value = narrow(wide(value) / norm);
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    std::vector<uint16_t> gram, polynomial;
    for (float sum :
         whole(n, n, most, rt::leftOperand(SHX_BF16, x.data(), columns, tall),
               rt::rightOperand(SHX_BF16, x.data(), columns, !tall)))
      gram.push_back(narrow(sum));
    std::vector<float> sums =
        whole(n, n, n, rt::leftOperand(SHX_BF16, gram.data(), n, false),
              rt::rightOperand(SHX_BF16, gram.data(), n, false));
    for (size_t i = 0; i < sums.size(); ++i)
      polynomial.push_back(
          narrow(-4.7750F * wide(gram[i]) + 2.0315F * sums[i]));
    sums =
        tall ? whole(rows, n, n, rt::leftOperand(SHX_BF16, x.data(), n, false),
                     rt::rightOperand(SHX_BF16, polynomial.data(), n, true))
             : whole(n, columns, n,
                     rt::leftOperand(SHX_BF16, polynomial.data(), n, false),
                     rt::rightOperand(SHX_BF16, x.data(), columns, false));
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = narrow(3.4445F * wide(x[i]) + sums[i]);
  }
  return x;
}

void expectSameInParts(int64_t rows, int64_t columns) {
  NewtonSchulzPlan plan = planNewtonSchulz(rows, columns);
  ASSERT_LT(plan.block, plan.most);
  forEachProductTable([&] {
    std::vector<uint16_t> result = orthogonal(rows, columns),
                          expected = inOnePart(rows, columns);
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_EQ(result[i], expected[i]) << "at " << i;
  });
}

TEST(NewtonSchulz, ColumnsInParts) { expectSameInParts(16, 70000); }
TEST(NewtonSchulz, RowsInParts) { expectSameInParts(70000, 16); }

} // namespace
