// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gathers, scatters, lines to rank and grouped products, drawn at random, and
// what comes of them: shared by the tests of every device.

#ifndef SHARDONNX_TEST_UNIT_INDEX_PROBLEM_H
#define SHARDONNX_TEST_UNIT_INDEX_PROBLEM_H

#include "cpu_kernels_util.h"
#include "shardonnx/runtime/IndexABI.h"
#include <limits>
#include <tuple>

namespace shardonnx::test {

// Data [a, b, c] and values with one axis of positions more or less: the three
// kinds that ONNX has.
struct IndexProblem {
  ShxIndexing d{};
  int64_t dataSize = 1, indexSize = 1, valueSize = 1;
};

inline void addAxis(IndexProblem &p, int64_t size, int64_t data,
                    int64_t index) {
  int32_t axis = p.d.rank++;
  p.d.dims[axis] = size;
  p.d.dataStride[axis] = data;
  p.d.indexStride[axis] = index;
}

inline void finish(IndexProblem &p, std::mt19937 &random) {
  p.valueSize = 1;
  for (int32_t axis = p.d.rank - 1; axis >= 0; --axis) {
    p.d.valueStride[axis] = p.valueSize;
    p.valueSize *= p.d.dims[axis];
  }
  p.d.dtype = int32_t(random() % 6);
  p.d.indexDtype = random() % 2 ? SHX_I64 : SHX_I32;
}

inline IndexProblem drawIndexing(std::mt19937 &random) {
  IndexProblem p;
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

inline Buffer drawIndices(const IndexProblem &p, std::mt19937 &random) {
  Buffer indices(p.d.indexDtype, p.indexSize);
  for (int64_t i = 0; i < p.indexSize; ++i) {
    int64_t size = p.d.indexedSize[p.d.components == 2 ? i % 2 : 0];
    indices.set(i, double(int64_t(random() % uint64_t(2 * size)) - size));
  }
  return indices;
}

inline Buffer drawData(int32_t dtype, int64_t count, std::mt19937 &random) {
  Buffer data(dtype, count);
  for (int64_t i = 0; i < count; ++i)
    data.set(i, double(int64_t(random() % 17) - 8) / (dtype < 3 ? 4 : 1));
  return data;
}

// Calls body(data element, value element) in row-major order.
template <typename Body>
void walk(const IndexProblem &p, const Buffer &indices, Body body) {
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

inline double combined(int32_t reduction, int32_t dtype, double old,
                       double value) {
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

// The data after the updates, and the largest magnitude on the way.
inline std::vector<double> scattered(const IndexProblem &p, const Buffer &data,
                                     const Buffer &indices,
                                     const Buffer &values, double &largest) {
  std::vector<double> expected = data.values();
  largest = 0;
  walk(p, indices, [&](int64_t to, int64_t from) {
    double &place = expected[size_t(to)];
    place = roundToDtype(
        p.d.dtype, combined(p.d.reduction, p.d.dtype, place, values.get(from)));
    largest = std::max(largest, std::fabs(place));
  });
  return expected;
}

// Columns of a matrix.
struct TopKProblem {
  TopKProblem(std::mt19937 &random, std::vector<int64_t> sizes)
      : lines(pick(random, {1, 7, 90})), size(pick(random, sizes)),
        from(drawFrom(random)) {
    d.rank = 1;
    d.dims[0] = lines;
    d.size = size;
    d.k = 1 + int64_t(random() % uint64_t(std::min<int64_t>(size, 60)));
    d.fromStride[0] = 1;
    d.fromAxisStride = lines;
    d.valueStride[0] = d.indexStride[0] = d.k;
    d.valueAxisStride = d.indexAxisStride = 1;
    d.dtype = from.dtype;
    d.smallest = random() % 2;
    d.lastFirst = random() % 2;
  }

  void expectRanks(const Buffer &values, const Buffer &indices) const {
    EXPECT_TRUE(values.guardsIntact() && indices.guardsIntact());
    for (int64_t l = 0; l < lines; ++l) {
      // NaN is beyond infinity.
      std::vector<std::tuple<bool, double, int64_t>> line;
      for (int64_t e = 0; e < size; ++e) {
        double value = from.get(e * lines + l);
        bool isNaN = std::isnan(value);
        value = isNaN ? 0 : d.smallest ? value : -value;
        line.push_back(
            {isNaN == bool(d.smallest), value, d.lastFirst ? -e : e});
      }
      std::sort(line.begin(), line.end());
      for (int64_t e = 0; e < d.k; ++e) {
        int64_t at = std::abs(std::get<2>(line[size_t(e)]));
        ASSERT_EQ(indices.get(l * d.k + e), double(at));
        double value = values.get(l * d.k + e), want = from.get(at * lines + l);
        ASSERT_TRUE(value == want || (std::isnan(value) && std::isnan(want)));
      }
    }
  }

private:
  Buffer drawFrom(std::mt19937 &random) const {
    Buffer data = drawData(int32_t(random() % 6), lines * size, random);
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    if (data.dtype == SHX_F32)
      for (double value : {kNaN, HUGE_VAL, -HUGE_VAL, kNaN, -0.0, HUGE_VAL})
        data.set(int64_t(random()) % data.size(), value);
    return data;
  }

public:
  ShxTopK d{};
  int64_t lines, size;
  Buffer from;
};

// rows × depth times one of the groups' matrices.
struct GroupedProblem {
  GroupedProblem(const ShxGroupedGemm &desc, std::mt19937 &random)
      : d(desc), a(d.dtypeA, d.rows * d.lda), c(d.dtypeC, d.rows * d.ldc),
        matrices(d.dtypeMatrix, d.groups * d.depth * d.width),
        indices(random() % 2 ? SHX_I64 : SHX_I32, d.rows) {
    a.fillRandom(random);
    c.fillRandom(random);
    matrices.fillRandom(random);
    // Some groups have most of the rows, some none; some count from the end.
    for (int64_t r = 0; r < d.rows; ++r) {
      int64_t most = random() % 2 ? d.groups : 1 + d.groups / 3;
      int64_t group = int64_t(random() % uint64_t(most));
      indices.set(r, double(random() % 5 ? group : group - d.groups));
    }
    sort.rows = d.rows;
    sort.groups = d.groups;
    sort.indexDtype = indices.dtype;
  }

  int64_t group(int64_t row) const {
    auto group = int64_t(indices.get(row));
    return group < 0 ? group + d.groups : group;
  }
  Buffer routes() const { return {SHX_I32, d.groups + 1 + d.rows}; }

  void expectRoutes(const Buffer &routes) const {
    EXPECT_TRUE(routes.guardsIntact());
    std::vector<double> expected, order;
    for (int64_t g = 0; g < d.groups; ++g) {
      expected.push_back(double(order.size()));
      for (int64_t r = 0; r < d.rows; ++r)
        if (group(r) == g)
          order.push_back(double(r));
    }
    expected.push_back(double(d.rows));
    expected.insert(expected.end(), order.begin(), order.end());
    EXPECT_EQ(routes.values(), expected);
  }

  // What lies between the rows stays.
  std::vector<double> products() const {
    std::vector<double> products = c.values();
    for (int64_t r = 0; r < d.rows; ++r)
      for (int64_t y = 0; y < d.width; ++y) {
        double sum = 0;
        for (int64_t x = 0; x < d.depth; ++x)
          sum +=
              a.get(r * d.lda + x) *
              matrices.get(group(r) * d.depth * d.width +
                           (d.transposed ? y * d.depth + x : x * d.width + y));
        products[size_t(r * d.ldc + y)] = sum;
      }
    return products;
  }

  std::vector<double> gradients() const {
    std::vector<double> sums(size_t(matrices.size()), 0);
    for (int64_t r = 0; r < d.rows; ++r)
      for (int64_t x = 0; x < d.depth; ++x)
        for (int64_t y = 0; y < d.width; ++y)
          sums[size_t((group(r) * d.depth + x) * d.width + y)] +=
              a.get(r * d.lda + x) * c.get(r * d.ldc + y);
    return sums;
  }

  ShxGroupedGemm d;
  ShxGroupRows sort{};
  Buffer a, c, matrices, indices;
};

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_UNIT_INDEX_PROBLEM_H
