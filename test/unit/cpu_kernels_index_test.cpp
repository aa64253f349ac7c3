// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gather, scatter, top k and sums of lines against loops over every element, on
// one thread and on several: the bits must be the same.

#include "cpu_kernels_util.h"
#include "cumsum_problem.h"
#include "shardonnx/runtime/Cpu.h"
#include "shardonnx/runtime/IndexABI.h"
#include <limits>

using namespace shardonnx;
using namespace shardonnx::rt;
using namespace shardonnx::test;

namespace {

// Data [a, b, c] and values with one axis of positions more or less: the three
// kinds that ONNX has.
struct Problem {
  ShxIndexing d{};
  int64_t dataSize = 1, indexSize = 1, valueSize = 1;
};

void addAxis(Problem &p, int64_t size, int64_t data, int64_t index) {
  int32_t axis = p.d.rank++;
  p.d.dims[axis] = size;
  p.d.dataStride[axis] = data;
  p.d.indexStride[axis] = index;
}

void finish(Problem &p, std::mt19937 &random) {
  p.valueSize = 1;
  for (int32_t axis = p.d.rank - 1; axis >= 0; --axis) {
    p.d.valueStride[axis] = p.valueSize;
    p.valueSize *= p.d.dims[axis];
  }
  p.d.dtype = int32_t(random() % 6);
  p.d.indexDtype = random() % 2 ? SHX_I64 : SHX_I32;
}

Problem draw(std::mt19937 &random) {
  Problem p;
  int64_t a = pick(random, {1, 3, 40}), b = pick(random, {1, 5, 300}),
          c = pick(random, {1, 4, 130}), n = pick(random, {1, 6, 50});
  p.dataSize = a * b * c;
  switch (random() % 3) {
  case 0: // Gather along the middle axis
    addAxis(p, a, b * c, 0);
    addAxis(p, n, 0, 1);
    addAxis(p, c, 1, 0);
    p.d.components = 1;
    p.d.indexedSize[0] = b;
    p.d.indexedStride[0] = c;
    p.indexSize = n;
    break;
  case 1: // GatherElements along the first
    addAxis(p, n, 0, b * c);
    addAxis(p, b, c, c);
    addAxis(p, c, 1, 1);
    p.d.components = 1;
    p.d.indexedSize[0] = a;
    p.d.indexedStride[0] = b * c;
    p.indexSize = n * b * c;
    break;
  default: // GatherND at coordinates of the first two
    addAxis(p, n, 0, 2);
    addAxis(p, c, 1, 0);
    p.d.components = 2;
    p.d.componentStride = 1;
    p.d.indexedSize[0] = a;
    p.d.indexedSize[1] = b;
    p.d.indexedStride[0] = b * c;
    p.d.indexedStride[1] = c;
    p.indexSize = 2 * n;
  }
  finish(p, random);
  return p;
}

Buffer drawIndices(const Problem &p, std::mt19937 &random) {
  Buffer indices(p.d.indexDtype, p.indexSize);
  for (int64_t i = 0; i < p.indexSize; ++i) {
    int64_t size = p.d.indexedSize[p.d.components == 2 ? i % 2 : 0];
    indices.set(i, double(int64_t(random() % uint64_t(2 * size)) - size));
  }
  return indices;
}

Buffer drawData(int32_t dtype, int64_t count, std::mt19937 &random) {
  Buffer data(dtype, count);
  for (int64_t i = 0; i < count; ++i)
    data.set(i, double(int64_t(random() % 17) - 8) / (dtype < 3 ? 4 : 1));
  return data;
}

// Calls body(data element, value element) in row-major order.
template <typename Body>
void walk(const Problem &p, const Buffer &indices, Body body) {
  for (int64_t at = 0; at < p.valueSize; ++at) {
    int64_t rest = at, data = 0, index = 0;
    for (int32_t axis = p.d.rank - 1; axis >= 0; --axis) {
      int64_t here = rest % p.d.dims[axis];
      rest /= p.d.dims[axis];
      data += here * p.d.dataStride[axis];
      index += here * p.d.indexStride[axis];
    }
    for (int32_t c = 0; c < p.d.components; ++c) {
      int64_t i = int64_t(indices.get(index + c * p.d.componentStride));
      data += (i < 0 ? i + p.d.indexedSize[c] : i) * p.d.indexedStride[c];
    }
    body(data, at);
  }
}

double combined(int32_t reduction, int32_t dtype, double old, double value) {
  bool isBool = dtype == SHX_I1;
  switch (reduction) {
  case SHX_REDUCE_NONE:
    return value;
  case SHX_REDUCE_ADD:
    return isBool ? double(old != 0 || value != 0) : old + value;
  case SHX_REDUCE_MUL:
    return old * value;
  case SHX_REDUCE_MIN:
    return std::min(old, value);
  default:
    return std::max(old, value);
  }
}

TEST(CpuIndex, Gathers) {
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    Problem p = draw(random);
    Buffer data = drawData(p.d.dtype, p.dataSize, random);
    Buffer indices = drawIndices(p, random), values(p.d.dtype, p.valueSize);
    setPoolThreads(1 + int(random() % 4));
    shx_gather(nullptr, &p.d, data.data(), indices.data(), values.data(), "");
    EXPECT_TRUE(values.guardsIntact());
    walk(p, indices, [&](int64_t from, int64_t to) {
      ASSERT_EQ(values.get(to), data.get(from));
    });
    if (HasFatalFailure())
      return;
  }
}

TEST(CpuIndex, ScattersInOrderOnAnyNumberOfThreads) {
  std::mt19937 random(2);
  for (int i = 0; i < 100; ++i) {
    Problem p = draw(random);
    p.d.reduction = int32_t(random() % 5);
    Buffer data = drawData(p.d.dtype, p.dataSize, random);
    Buffer indices = drawIndices(p, random);
    Buffer values = drawData(p.d.dtype, p.valueSize, random);
    std::vector<double> expected = data.values();
    double largest = 0;
    walk(p, indices, [&](int64_t to, int64_t from) {
      double &place = expected[size_t(to)];
      place = roundToDtype(p.d.dtype, combined(p.d.reduction, p.d.dtype, place,
                                               values.get(from)));
      largest = std::max(largest, std::fabs(place));
    });
    Buffer before = data;
    setPoolThreads(1);
    shx_scatter(nullptr, &p.d, indices.data(), values.data(), data.data(), "");
    EXPECT_TRUE(data.guardsIntact());
    // Larger products are not what a double holds exactly.
    for (int64_t e = 0; largest < 1e6 && e < data.size(); ++e)
      ASSERT_EQ(data.get(e), expected[size_t(e)]) << "element " << e;
    for (int threads : {2, 3, 4}) {
      Buffer again = before;
      setPoolThreads(threads);
      shx_scatter(nullptr, &p.d, indices.data(), values.data(), again.data(),
                  "");
      ASSERT_TRUE(again == data) << threads << " threads";
    }
  }
}

TEST(CpuIndex, SaysWhatIsOutside) {
  ShxIndexing d{};
  d.rank = d.components = 1;
  d.dims[0] = d.indexStride[0] = d.valueStride[0] = d.indexedStride[0] = 1;
  d.indexedSize[0] = 5;
  d.indexDtype = SHX_I64;
  float data[5] = {}, value = 0;
  int64_t index = 5;
  EXPECT_EXIT(
      shx_gather(nullptr, &d, data, &index, &value, "node 'g' (Gather)"),
      ::testing::ExitedWithCode(1),
      "error: index 5 of node 'g' \\(Gather\\) is outside of its axis "
      "of 5 elements");
  index = -6;
  EXPECT_EXIT(shx_scatter(nullptr, &d, &index, &value, data, "node 's'"),
              ::testing::ExitedWithCode(1), "error: index -6 of node 's'");
}

// rows × depth times one of the groups' matrices; several blocks of each.
TEST(CpuGroupedGemm, MultipliesAndSums) {
  std::mt19937 random(5);
  for (int i = 0; i < 30; ++i) {
    ShxGroupedGemm d{};
    d.rows = pick(random, {1, 20, 300});
    d.groups = pick(random, {1, 4, 9});
    d.depth = pick(random, {1, 7, 40});
    d.width = pick(random, {1, 33, 270});
    d.lda = d.depth + int64_t(random() % 3);
    d.ldc = d.width + int64_t(random() % 3);
    d.transposed = random() % 2;
    d.dtypeA = int32_t(random() % 3);
    d.dtypeMatrix = int32_t(random() % 3);
    d.dtypeC = int32_t(random() % 3);
    d.indexDtype = SHX_I64;
    Buffer a(d.dtypeA, d.rows * d.lda), c(d.dtypeC, d.rows * d.ldc),
        matrices(d.dtypeMatrix, d.groups * d.depth * d.width),
        indices(SHX_I64, d.rows);
    a.fillRandom(random);
    c.fillRandom(random);
    matrices.fillRandom(random);
    for (int64_t r = 0; r < d.rows; ++r)
      indices.set(r, double(random() % uint64_t(d.groups)));
    auto group = [&](int64_t r) { return int64_t(indices.get(r)); };
    std::vector<double> sums(size_t(matrices.size()), 0),
        products = c.values(); // what lies between the rows stays
    for (int64_t r = 0; r < d.rows; ++r)
      for (int64_t y = 0; y < d.width; ++y) {
        double sum = 0;
        for (int64_t x = 0; x < d.depth; ++x) {
          int64_t base = group(r) * d.depth * d.width;
          sum += a.get(r * d.lda + x) *
                 matrices.get(
                     base + (d.transposed ? y * d.depth + x : x * d.width + y));
          sums[size_t(base + x * d.width + y)] +=
              a.get(r * d.lda + x) * c.get(r * d.ldc + y);
        }
        products[size_t(r * d.ldc + y)] = sum;
      }
    setPoolThreads(1 + int(random() % 4));
    Buffer gradient = matrices, product = c;
    shx_grouped_gemm_grad(nullptr, &d, a.data(), c.data(), indices.data(),
                          gradient.data(), "");
    expectClose(gradient, sums, precision(d.dtypeMatrix), "gradient");
    shx_grouped_gemm(nullptr, &d, a.data(), matrices.data(), indices.data(),
                     product.data(), "");
    expectClose(product, products, precision(d.dtypeC), "product");
    if (HasFatalFailure())
      return;
  }
}

TEST(CpuTopK, RanksLines) {
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    int64_t lines = pick(random, {1, 7, 90}), size = pick(random, {1, 5, 60});
    ShxTopK d{};
    d.rank = 1;
    d.dims[0] = lines;
    d.size = size;
    d.k = 1 + int64_t(random() % uint64_t(size));
    d.fromStride[0] = 1; // lines are columns
    d.fromAxisStride = lines;
    d.valueStride[0] = d.indexStride[0] = d.k;
    d.valueAxisStride = d.indexAxisStride = 1;
    d.dtype = int32_t(random() % 5);
    d.smallest = random() % 2;
    d.lastFirst = random() % 2;
    Buffer from = drawData(d.dtype, lines * size, random);
    if (d.dtype == SHX_F32)
      from.set(int64_t(random()) % from.size(),
               std::numeric_limits<double>::quiet_NaN());
    Buffer values(d.dtype, lines * d.k), indices(SHX_I64, lines * d.k);
    setPoolThreads(1 + int(random() % 4));
    shx_top_k(nullptr, &d, from.data(), values.data(),
              static_cast<int64_t *>(indices.data()));
    EXPECT_TRUE(values.guardsIntact() && indices.guardsIntact());
    for (int64_t l = 0; l < lines; ++l) {
      std::vector<std::pair<double, int64_t>> line;
      for (int64_t e = 0; e < size; ++e) {
        double value = from.get(e * lines + l);
        value = std::isnan(value) ? INFINITY : value;
        line.push_back({d.smallest ? value : -value, d.lastFirst ? -e : e});
      }
      std::sort(line.begin(), line.end());
      for (int64_t e = 0; e < d.k; ++e) {
        int64_t at = std::abs(line[size_t(e)].second);
        ASSERT_EQ(indices.get(l * d.k + e), double(at));
        double value = values.get(l * d.k + e), want = from.get(at * lines + l);
        ASSERT_TRUE(value == want || (std::isnan(value) && std::isnan(want)));
      }
    }
  }
}

TEST(CpuCumSum, EveryAxisAndType) {
  std::mt19937 random(11);
  for (int i = 0; i < 100 && !HasFatalFailure(); ++i) {
    CumSumProblem p(random, int32_t(i % 5));
    Buffer to(p.d.dtype, p.from.size()), copy = p.from;
    bool inPlace = random() % 3 == 0;
    Buffer &result = inPlace ? copy : to;
    setPoolThreads(1 + int(random() % 4));
    shx_cumsum(nullptr, &p.d, copy.data(), result.data());
    EXPECT_TRUE(result.guardsIntact());
    p.expectSums(result);
  }
}

} // namespace
