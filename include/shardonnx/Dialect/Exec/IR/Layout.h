// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arithmetic of strided layouts: what a reshape, transpose, slice or broadcast
// does to where elements lie. No IR.

#ifndef SHARDONNX_DIALECT_EXEC_IR_LAYOUT_H
#define SHARDONNX_DIALECT_EXEC_IR_LAYOUT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>

namespace shardonnx::exec {

/// Element (i0, i1, …) lies at offset + Σ i·stride, in elements of a root.
struct Layout {
  int64_t offset = 0;
  llvm::SmallVector<int64_t> shape, strides;

  static Layout rowMajor(llvm::ArrayRef<int64_t> shape);
  int64_t rank() const { return int64_t(shape.size()); }
  int64_t numElements() const;
  bool isContiguous() const;
  /// Does a step along the axis (from the end: 1 is the last) go to the next
  /// element? An axis of one element has no steps.
  bool isUnit(int64_t axisFromEnd) const;
  /// Do two indices share an element?
  bool repeats() const;
  bool operator==(const Layout &other) const;

  /// The same elements in row-major order under another shape; none if that
  /// needs a copy.
  std::optional<Layout> reshape(llvm::ArrayRef<int64_t> newShape) const;
  Layout transpose(llvm::ArrayRef<int64_t> permutation) const;
  /// The layout that `transpose` would make this one of.
  Layout untranspose(llvm::ArrayRef<int64_t> permutation) const;
  Layout slice(llvm::ArrayRef<int64_t> offsets,
               llvm::ArrayRef<int64_t> sizes) const;
  Layout broadcast(llvm::ArrayRef<int64_t> newShape) const;
  Layout swapLastTwo() const;

private:
  /// Strides of axes of one element mean nothing: make them what row-major
  /// order would, so that equal layouts compare equal.
  Layout normalized() const;
};

/// Makes one axis of those that both layouts, of one shape, walk as one.
void mergeAxes(Layout &one, Layout &other);

} // namespace shardonnx::exec

#endif // SHARDONNX_DIALECT_EXEC_IR_LAYOUT_H
