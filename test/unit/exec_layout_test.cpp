// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Strided layouts: every view is compared with the elements that it must name,
// counted out by hand or by walking all indices.

#include "shardonnx/Dialect/Exec/IR/Layout.h"

#include <gtest/gtest.h>
#include <random>

using namespace shardonnx::exec;
using llvm::ArrayRef;
using llvm::SmallVector;

namespace {

// Where the elements lie, in row-major order of the indices.
std::vector<int64_t> elementsOf(const Layout &layout) {
  std::vector<int64_t> result = {layout.offset};
  for (size_t axis = 0; axis < layout.shape.size(); ++axis) {
    std::vector<int64_t> next;
    for (int64_t base : result)
      for (int64_t i = 0; i < layout.shape[axis]; ++i)
        next.push_back(base + i * layout.strides[axis]);
    result = std::move(next);
  }
  return result;
}

TEST(Layout, RowMajor) {
  Layout layout = Layout::rowMajor({2, 3, 4});
  EXPECT_EQ(ArrayRef<int64_t>(layout.strides), ArrayRef<int64_t>({12, 4, 1}));
  EXPECT_TRUE(layout.isContiguous());
  EXPECT_FALSE(layout.transpose({0, 2, 1}).isContiguous());
}

TEST(Layout, SliceThenSplitHeads) {
  // k of [q, k, v] in rows of 3·8: columns 8…15, as 2 heads of 4.
  Layout k = Layout::rowMajor({2, 5, 24}).slice({0, 0, 8}, {2, 5, 8});
  EXPECT_EQ(k.offset, 8);
  auto heads = k.reshape({2, 5, 2, 4});
  ASSERT_TRUE(heads);
  EXPECT_EQ(ArrayRef<int64_t>(heads->strides),
            ArrayRef<int64_t>({120, 24, 4, 1}));
  // Rows and columns of a slice are no single axis …
  EXPECT_FALSE(k.reshape({80}));
  // … but batch and rows are.
  EXPECT_TRUE(k.reshape({10, 8}));
}

TEST(Layout, ReshapeAcrossTransposeNeedsACopy) {
  Layout transposed = Layout::rowMajor({4, 6}).transpose({1, 0});
  EXPECT_FALSE(transposed.reshape({24}));
  EXPECT_FALSE(transposed.reshape({8, 3}));
  EXPECT_TRUE(transposed.reshape({2, 3, 4}));
}

TEST(Layout, Broadcast) {
  Layout row = Layout::rowMajor({3}).broadcast({2, 3});
  EXPECT_EQ(elementsOf(row), std::vector<int64_t>({0, 1, 2, 0, 1, 2}));
  EXPECT_TRUE(row.repeats());
  Layout column = Layout::rowMajor({2, 1}).broadcast({2, 3});
  EXPECT_EQ(elementsOf(column), std::vector<int64_t>({0, 0, 0, 1, 1, 1}));
}

TEST(Layout, UntransposeUndoesTranspose) {
  Layout layout = Layout::rowMajor({2, 3, 4, 5});
  SmallVector<int64_t> permutation = {2, 0, 3, 1};
  EXPECT_TRUE(layout.transpose(permutation).untranspose(permutation) == layout);
}

// Splits a count into random factors.
SmallVector<int64_t> randomShape(int64_t count, std::mt19937 &random) {
  SmallVector<int64_t> shape;
  while (count > 1) {
    int64_t factor = 1 + random() % 6;
    if (count % factor)
      continue;
    shape.insert(shape.begin() + random() % (shape.size() + 1), factor);
    count /= factor;
  }
  return shape;
}

// A reshape of any view names the same elements in the same order; one that is
// refused is none that strides could express.
TEST(Layout, RandomReshapes) {
  std::mt19937 random(3);
  int views = 0, copies = 0;
  for (int round = 0; round < 3000; ++round) {
    Layout layout = Layout::rowMajor(randomShape(72, random));
    SmallVector<int64_t> permutation;
    for (int64_t i = 0; i < layout.rank(); ++i)
      permutation.insert(
          permutation.begin() + random() % (permutation.size() + 1), i);
    layout = layout.transpose(permutation);
    auto reshaped = layout.reshape(randomShape(72, random));
    if (reshaped) {
      ++views;
      EXPECT_EQ(elementsOf(*reshaped), elementsOf(layout));
    } else {
      ++copies;
      EXPECT_FALSE(layout.isContiguous());
    }
  }
  EXPECT_GT(views, 100);
  EXPECT_GT(copies, 100);
}

// Merged axes name the same elements of both sides in the same order.
TEST(Layout, MergeAxes) {
  Layout one = Layout::rowMajor({2, 1, 3, 4, 5}).transpose({1, 0, 3, 2, 4});
  Layout other =
      Layout::rowMajor({1, 2, 4, 6, 5}).slice({0, 0, 0, 1, 0}, {1, 2, 4, 3, 5});
  Layout a = one, b = other;
  mergeAxes(a, b);
  EXPECT_EQ(a.rank(), 4);
  EXPECT_EQ(elementsOf(a), elementsOf(one));
  EXPECT_EQ(elementsOf(b), elementsOf(other));
  a = b = Layout::rowMajor({2, 3, 4}).broadcast({5, 2, 3, 4});
  mergeAxes(a, b);
  EXPECT_EQ(ArrayRef<int64_t>(a.shape), ArrayRef<int64_t>({5, 24}));
  EXPECT_EQ(ArrayRef<int64_t>(a.strides), ArrayRef<int64_t>({0, 1}));
}

} // namespace
