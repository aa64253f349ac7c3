// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arithmetic of strided layouts.

#include "shardonnx/Dialect/Exec/IR/Layout.h"

#include "llvm/ADT/STLExtras.h"

#include <cassert>

using namespace shardonnx::exec;
using llvm::ArrayRef;

Layout Layout::rowMajor(ArrayRef<int64_t> shape) {
  Layout layout;
  layout.shape.assign(shape.begin(), shape.end());
  layout.strides.resize(shape.size());
  int64_t stride = 1;
  for (int64_t i = layout.rank() - 1; i >= 0; --i) {
    layout.strides[i] = stride;
    stride *= shape[i];
  }
  return layout;
}

int64_t Layout::numElements() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

bool Layout::isContiguous() const {
  int64_t expected = 1;
  for (int64_t i = rank() - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != expected)
      return false;
    expected *= shape[i];
  }
  return true;
}

bool Layout::isUnit(int64_t axisFromEnd) const {
  int64_t axis = rank() - axisFromEnd;
  return shape[axis] == 1 || strides[axis] == 1;
}

bool Layout::repeats() const {
  for (auto [size, stride] : llvm::zip(shape, strides))
    if (size != 1 && stride == 0)
      return true;
  return false;
}

bool Layout::operator==(const Layout &other) const {
  return offset == other.offset && shape == other.shape &&
         strides == other.strides;
}

Layout Layout::normalized() const {
  Layout result = *this;
  for (int64_t i = rank() - 1; i >= 0; --i)
    if (shape[i] == 1)
      result.strides[i] =
          i + 1 == rank() ? 1 : result.strides[i + 1] * shape[i + 1];
  return result;
}

// Groups of axes that hold the same elements in both shapes are handled one by
// one, from the end: a group of old axes must be walkable as one axis.
std::optional<Layout> Layout::reshape(ArrayRef<int64_t> newShape) const {
  Layout result = rowMajor(newShape);
  result.offset = offset;
  assert(result.numElements() == numElements() && "a reshape keeps elements");
  if (numElements() == 0)
    return result;
  int64_t from = rank() - 1, to = result.rank() - 1;
  while (to >= 0) {
    if (newShape[to] == 1) {
      --to;
      continue;
    }
    while (from >= 0 && shape[from] == 1)
      --from;
    assert(from >= 0 && "sizes were checked");
    int64_t oldSize = shape[from], newSize = newShape[to];
    int64_t stride = strides[from];
    result.strides[to] = stride;
    while (oldSize != newSize) {
      if (oldSize < newSize) {
        // The next old axis must continue where this one wraps.
        int64_t inner = from--;
        int64_t expected = strides[inner] * shape[inner];
        while (from >= 0 && shape[from] == 1)
          --from;
        if (from < 0 || strides[from] != expected)
          return std::nullopt;
        oldSize *= shape[from];
      } else {
        --to;
        result.strides[to] = stride * newSize;
        newSize *= newShape[to];
      }
    }
    --from;
    --to;
  }
  return result.normalized();
}

Layout Layout::transpose(ArrayRef<int64_t> permutation) const {
  Layout result = *this;
  for (auto [to, from] : llvm::enumerate(permutation)) {
    result.shape[to] = shape[from];
    result.strides[to] = strides[from];
  }
  return result.normalized();
}

Layout Layout::untranspose(ArrayRef<int64_t> permutation) const {
  Layout result = *this;
  for (auto [from, to] : llvm::enumerate(permutation)) {
    result.shape[to] = shape[from];
    result.strides[to] = strides[from];
  }
  return result.normalized();
}

Layout Layout::slice(ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes) const {
  Layout result = *this;
  for (int64_t i = 0; i < rank(); ++i)
    result.offset += offsets[i] * strides[i];
  result.shape.assign(sizes.begin(), sizes.end());
  return result.normalized();
}

Layout Layout::broadcast(ArrayRef<int64_t> newShape) const {
  Layout result = rowMajor(newShape);
  result.offset = offset;
  int64_t lead = result.rank() - rank();
  for (int64_t i = 0; i < result.rank(); ++i) {
    bool repeated = i < lead || shape[i - lead] != newShape[i];
    result.strides[i] = repeated ? 0 : strides[i - lead];
  }
  return result.normalized();
}

Layout Layout::swapLastTwo() const {
  Layout result = *this;
  std::swap(result.shape[rank() - 1], result.shape[rank() - 2]);
  std::swap(result.strides[rank() - 1], result.strides[rank() - 2]);
  return result;
}

void shardonnx::exec::mergeAxes(Layout &one, Layout &other) {
  assert(one.shape == other.shape && "axes are merged in pairs");
  Layout a = one, b = other;
  a.shape.clear(), a.strides.clear(), b.strides.clear();
  for (int64_t axis = 0; axis < one.rank(); ++axis) {
    int64_t size = one.shape[axis];
    if (size == 1)
      continue;
    int64_t x = one.strides[axis], y = other.strides[axis];
    if (!a.shape.empty() && a.strides.back() == x * size &&
        b.strides.back() == y * size) {
      a.shape.back() *= size;
      a.strides.back() = x;
      b.strides.back() = y;
      continue;
    }
    a.shape.push_back(size);
    a.strides.push_back(x);
    b.strides.push_back(y);
  }
  b.shape = a.shape;
  one = a;
  other = b;
}
