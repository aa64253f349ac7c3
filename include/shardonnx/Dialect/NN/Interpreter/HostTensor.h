// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A tensor of known value. Exporters compute masks and position tables by long
// chains of ops over [batch, 1, seq, seq]; here these are strided views, axes
// along which nothing changes are never stored, and tensors of few distinct
// values are bytes, so that the chains cost little.

#ifndef SHARDONNX_DIALECT_NN_INTERPRETER_HOSTTENSOR_H
#define SHARDONNX_DIALECT_NN_INTERPRETER_HOSTTENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <memory>
#include <optional>
#include <vector>

namespace shardonnx::nn {

/// One element. Which member counts follows from the tensor's element type:
/// `f` for floats (rounded to that type unless the interpreter is told not to),
/// `i` for integers and booleans.
union Scalar {
  int64_t i;
  double f;
};

class HostTensor {
public:
  using Dims = llvm::SmallVector<int64_t, 6>;

  /// A tensor that is `value` everywhere.
  static HostTensor splat(llvm::ArrayRef<int64_t> shape, mlir::Type elementType,
                          Scalar value);
  /// A tensor of the given elements in row-major order.
  static HostTensor dense(llvm::ArrayRef<int64_t> shape, mlir::Type elementType,
                          std::vector<Scalar> values);
  static HostTensor ints(llvm::ArrayRef<int64_t> shape,
                         llvm::ArrayRef<int64_t> values,
                         mlir::Type elementType);
  static HostTensor fromAttr(mlir::DenseElementsAttr attr);
  /// From the bytes of a model file: little-endian, one byte for each boolean.
  static HostTensor fromBytes(mlir::RankedTensorType type,
                              llvm::ArrayRef<char> bytes);

  mlir::Type getElementType() const { return elementType; }
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  int64_t getRank() const { return static_cast<int64_t>(shape.size()); }
  int64_t getNumElements() const;
  bool isFloat() const { return llvm::isa<mlir::FloatType>(elementType); }
  /// One value everywhere, because no axis is stored.
  bool isSplat() const;
  /// Whether the value may change along an axis.
  bool varies(unsigned axis) const {
    return shape[axis] > 1 && strides[axis] != 0;
  }
  /// Whether elements are equal wherever index[row] - index[column] is, because
  /// of how they are stored: the 2n - 1 diagonals of an n × n mask.
  bool isDiagonal(unsigned row, unsigned column) const {
    return strides[row] != 0 && strides[row] == -strides[column];
  }
  mlir::RankedTensorType getType() const {
    return mlir::RankedTensorType::get(shape, elementType);
  }

  Scalar at(llvm::ArrayRef<int64_t> index) const;
  /// The first element; the tensor must not be empty.
  Scalar front() const { return load(offset); }
  /// All elements in row-major order.
  std::vector<Scalar> flatten() const;
  llvm::SmallVector<int64_t> flattenInts() const;
  /// The same tensor with size 1 along every axis that does not vary.
  HostTensor compact() const;
  mlir::DenseElementsAttr toAttr() const;

  /// The NumPy broadcast of two shapes, or none.
  static std::optional<Dims> broadcastShapes(llvm::ArrayRef<int64_t> a,
                                             llvm::ArrayRef<int64_t> b);

  // Views: no element is copied, but by `reshape` where it must.
  HostTensor transpose(llvm::ArrayRef<int64_t> permutation) const;
  HostTensor broadcast(llvm::ArrayRef<int64_t> newShape) const;
  HostTensor reshape(llvm::ArrayRef<int64_t> newShape) const;
  /// How many bytes `reshape` copies.
  int64_t reshapeCost(llvm::ArrayRef<int64_t> newShape) const;
  HostTensor slice(unsigned axis, int64_t start, int64_t step,
                   int64_t size) const;

  /// Each of `axes` counts windows, and one more axis at the end goes through
  /// the elements of one (nn.windows).
  HostTensor windows(llvm::ArrayRef<int64_t> axes,
                     llvm::ArrayRef<int64_t> sizes,
                     llvm::ArrayRef<int64_t> steps,
                     llvm::ArrayRef<int64_t> dilations) const;

  /// Applies `function` to the elements of `operands`, broadcast to one shape.
  /// None when the result would be too large to compute here.
  static std::optional<HostTensor>
  map(llvm::ArrayRef<HostTensor> operands, mlir::Type elementType,
      llvm::function_ref<Scalar(llvm::ArrayRef<Scalar>)> function);

  /// `a - b` by diagonals, for integers that grow evenly along one axis each,
  /// as indices of rows and of columns do; none for others. Whatever depends on
  /// the difference alone is then computed once for each diagonal.
  static std::optional<HostTensor> indexDifference(const HostTensor &a,
                                                   const HostTensor &b);

  /// Stops storing axes along which all elements are in fact equal.
  HostTensor collapseUniformAxes() const;

  /// Identifies the storage, for caching what is derived from it.
  const void *storage() const {
    return codes ? static_cast<const void *>(codes.get())
                 : static_cast<const void *>(values.get());
  }

  /// Whether both show the same elements of one storage in the same way; false
  /// may also mean that it is not known.
  bool isSameView(const HostTensor &other) const {
    return values && values == other.values && offset == other.offset &&
           shape == other.shape && strides == other.strides &&
           elementType == other.elementType;
  }

private:
  bool isUniformAlong(unsigned axis, llvm::ArrayRef<unsigned> axes,
                      int64_t position, int64_t first) const;
  /// Axis `row` becomes the diagonals of (`row`, `column`), and `column` 1.
  HostTensor foldDiagonals(unsigned row, unsigned column) const;
  HostTensor unfoldDiagonals(unsigned row, unsigned column, int64_t rows,
                             int64_t columns) const;
  Scalar load(int64_t position) const {
    return codes ? palette[(*codes)[position]] : (*values)[position];
  }

  mlir::Type elementType;
  Dims shape;
  Dims strides;
  int64_t offset = 0;
  /// Either `values`, or `codes` that index `palette`.
  std::shared_ptr<const std::vector<Scalar>> values;
  std::shared_ptr<const std::vector<uint8_t>> codes;
  std::vector<Scalar> palette;
};

/// `value` rounded to the float type `type`.
double roundTo(double value, mlir::Type type);

/// `value` wrapped to the integer type `type`.
int64_t wrapTo(int64_t value, mlir::Type type);

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_INTERPRETER_HOSTTENSOR_H
