// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is known of a graph's tensors before it is lowered.

#ifndef SHARDONNX_LIB_IMPORT_KNOWNTENSORS_H
#define SHARDONNX_LIB_IMPORT_KNOWNTENSORS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <functional>
#include <numeric>
#include <optional>
#include <vector>

namespace onnx {
class GraphProto;
class NodeProto;
class TensorProto;
} // namespace onnx

namespace shardonnx {

/// The product of sizes, which must not overflow.
inline int64_t elementsOf(llvm::ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1),
                         std::multiplies<>());
}

/// The same; nothing for no elements, and for more than `most`.
inline std::optional<int64_t> elementsUpTo(llvm::ArrayRef<int64_t> sizes,
                                           int64_t most) {
  int64_t count = 1;
  for (int64_t size : sizes) {
    if (size < 1 || size > most / count)
      return std::nullopt;
    count *= size;
  }
  return count;
}

/// Whether a tensor whose bytes are here has nothing but zeros.
bool isZeroTensor(const ::onnx::TensorProto &tensor);

/// The tensors of a graph: static shapes, element types, and small integers
/// that the file has.
class KnownTensors {
public:
  /// Of a graph whose shapes are inferred.
  explicit KnownTensors(const ::onnx::GraphProto &graph);

  /// Nothing where the shape is not static.
  const std::vector<int64_t> *shapeOf(llvm::StringRef name) const;
  /// Of a value whose shape was not inferred.
  void setShape(llvm::StringRef name, std::vector<int64_t> shape) {
    shapes[name] = std::move(shape);
  }
  /// A TensorProto.DataType; 0 where it is not known.
  int typeOf(llvm::StringRef name) const { return types.lookup(name); }
  const std::vector<int64_t> *intsOf(llvm::StringRef name) const;
  /// Whether it is a constant all of whose elements are zero.
  bool isZero(llvm::StringRef name) const;
  const ::onnx::NodeProto *producerOf(llvm::StringRef name) const {
    return producers.lookup(name);
  }
  /// The same, where it is of this op of the default domain.
  const ::onnx::NodeProto *producerOf(llvm::StringRef name,
                                      llvm::StringRef op) const;
  /// Whether it is made of the file's constants alone.
  bool isConstant(llvm::StringRef name) const;
  /// The value that this one repeats: what exporters permute as it is, or
  /// expand to the shape that it has, is the same.
  llvm::StringRef sourceOf(llvm::StringRef name) const;
  /// The one before it on the way there, else itself.
  llvm::StringRef movedFrom(llvm::StringRef name) const;

private:
  void addConstant(const ::onnx::NodeProto &node);
  bool addsOneAxis(const ::onnx::NodeProto &node) const;
  void followInts(const ::onnx::NodeProto &node);

  llvm::StringMap<std::vector<int64_t>> shapes, ints;
  llvm::StringMap<int> types;
  llvm::StringMap<const ::onnx::NodeProto *> producers;
  llvm::StringSet<> zeros, inputs, numbers; // of no axis
};

/// Makes constants of lists of axes that exporters make of a number, which the
/// library's inference does not follow.
void foldAxes(::onnx::GraphProto &graph);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_KNOWNTENSORS_H
