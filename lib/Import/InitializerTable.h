// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The initializers of a graph while they are still in it: who reads them, what
// their bytes are, and copies of them. Entry i of the table is the graph's
// initializer i.

#ifndef SHARDONNX_LIB_IMPORT_INITIALIZERTABLE_H
#define SHARDONNX_LIB_IMPORT_INITIALIZERTABLE_H

#include "Parameters.h"
#include "shardonnx/Support/InputFile.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringSet.h"

#include <onnx/onnx_pb.h>

namespace shardonnx {

/// The first bytes of an initializer that a file has.
InputBytes readFirstBytes(const Initializer &init, llvm::StringRef modelPath,
                          uint64_t length);

/// Whether all elements are the same number: what an initialisation makes of
/// many parameters at once. False where the bytes cannot be read.
bool hasEqualElements(const Initializer &init, llvm::StringRef modelPath);

/// Whether nodes read the value, each of them as `isSo` says of the node and of
/// which operand that is.
bool isReadOnlyAs(
    const ::onnx::GraphProto &graph, llvm::StringRef value,
    llvm::function_ref<bool(const ::onnx::NodeProto &, int)> isSo);

/// Operand `operand` of `node` is initializer number `init`.
struct InitializerUse {
  ::onnx::NodeProto *node;
  int operand;
  size_t init;
};

class InitializerTable {
public:
  InitializerTable(::onnx::GraphProto &graph, llvm::StringRef modelPath,
                   std::vector<Initializer> &entries);

  Initializer &operator[](size_t index) { return entries[index]; }
  const Initializer &operator[](size_t index) const { return entries[index]; }
  size_t size() const { return entries.size(); }
  llvm::ArrayRef<Initializer> all() const { return entries; }

  std::optional<size_t> find(llvm::StringRef name) const;
  bool isFloat(size_t index) const;
  /// Whether some value of the graph has this name.
  bool isValue(llvm::StringRef name) const { return values.contains(name); }
  std::vector<InitializerUse> uses(::onnx::NodeProto &node) const;

  /// As hasEqualElements, read once.
  bool isUniform(size_t index);

  /// Another initializer with the bytes of `from`. `name` is new to the graph.
  size_t addCopy(size_t from, const std::string &name);
  /// A vector of zeros that no file has the bytes of.
  size_t addZeros(const std::string &name, int64_t size, size_t like);

private:
  size_t add(Initializer init, ::onnx::TensorProto tensor);

  ::onnx::GraphProto &graph;
  llvm::StringRef modelPath;
  std::vector<Initializer> &entries;
  llvm::StringMap<size_t> byName;
  llvm::StringSet<> values;
  std::vector<std::optional<bool>> uniform;
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_INITIALIZERTABLE_H
