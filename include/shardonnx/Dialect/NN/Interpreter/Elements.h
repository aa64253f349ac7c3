// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The elements of a tensor one after another, for ops that are no views and map
// no elements to elements.

#ifndef SHARDONNX_DIALECT_NN_INTERPRETER_ELEMENTS_H
#define SHARDONNX_DIALECT_NN_INTERPRETER_ELEMENTS_H

#include "shardonnx/Dialect/NN/Interpreter/HostTensor.h"
#include "llvm/ADT/STLExtras.h"

namespace shardonnx::nn {

/// Steps `index` through `shape` in row-major order; false after the last.
inline bool advance(llvm::MutableArrayRef<int64_t> index,
                    llvm::ArrayRef<int64_t> shape) {
  for (size_t axis = index.size(); axis-- > 0;) {
    if (++index[axis] < shape[axis])
      return true;
    index[axis] = 0;
  }
  return false;
}

/// Calls `body` with every index of a shape, the last axis fastest.
template <typename Body>
void forEachIndex(llvm::ArrayRef<int64_t> shape, Body body) {
  if (llvm::is_contained(shape, 0))
    return;
  llvm::SmallVector<int64_t> index(shape.size(), 0);
  do
    body(llvm::ArrayRef<int64_t>(index));
  while (advance(index, shape));
}

/// Elements in row-major order.
struct Elements {
  Elements() = default;
  explicit Elements(const HostTensor &tensor)
      : shape(tensor.getShape()), values(tensor.flatten()) {}
  Elements(llvm::ArrayRef<int64_t> shape, Scalar fill) : shape(shape) {
    int64_t count = 1;
    for (int64_t size : shape)
      count *= size;
    values.assign(count, fill);
  }

  /// The element at an index of a larger shape that this broadcasts to.
  Scalar &at(llvm::ArrayRef<int64_t> index) { return values[offset(index)]; }
  Scalar at(llvm::ArrayRef<int64_t> index) const {
    return values[offset(index)];
  }

  HostTensor::Dims shape;
  std::vector<Scalar> values;

private:
  int64_t offset(llvm::ArrayRef<int64_t> index) const {
    size_t lead = index.size() - shape.size();
    int64_t result = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis)
      result =
          result * shape[axis] + (shape[axis] == 1 ? 0 : index[lead + axis]);
    return result;
  }
};

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_INTERPRETER_ELEMENTS_H
