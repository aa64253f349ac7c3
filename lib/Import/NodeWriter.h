// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nodes that stand in the place of another one.

#ifndef SHARDONNX_LIB_IMPORT_NODEWRITER_H
#define SHARDONNX_LIB_IMPORT_NODEWRITER_H

#include "Subgraphs.h"

#include <onnx/onnx_pb.h>

namespace shardonnx {

/// So many nodes a graph may come to by its loops.
constexpr int64_t kMostNodes = 50000;

/// Adds nodes to the end of a graph. They have the name and the metadata of the
/// one that they stand for, and the form that their opset wants.
class NodeWriter {
public:
  NodeWriter(::onnx::GraphProto &graph, int opset)
      : graph(graph), opset(opset), names(graph) {}

  /// All that is added from now on stands for `node`, which must outlive it.
  void standFor(const ::onnx::NodeProto &node) { instead = &node; }

  ::onnx::NodeProto &add(llvm::StringRef op, llvm::ArrayRef<std::string> inputs,
                         llvm::ArrayRef<std::string> outputs);
  /// The name of the constant, which begins with `name`.
  std::string addConstant(const ::onnx::TensorProto &value,
                          llvm::StringRef name);
  /// Squeeze or Unsqueeze; the name of its result.
  std::string changeAxis(llvm::StringRef op, const std::string &of,
                         int64_t axis);
  /// Into `parts` of size 1.
  void split(const std::string &whole, llvm::ArrayRef<std::string> parts,
             int64_t axis);
  void concat(llvm::ArrayRef<std::string> parts, const std::string &whole,
              int64_t axis);
  /// Whether `copies` of a body, and `others` nodes more for each, leave the
  /// graph of a size that can be worked with.
  bool hasRoomFor(const ::onnx::GraphProto &body, int64_t copies,
                  int64_t others) const;
  /// The nodes of a body that can stand outside; its results.
  std::vector<std::string> copy(const ::onnx::GraphProto &body,
                                llvm::ArrayRef<std::string> inputs);
  /// As it is.
  void keep(::onnx::NodeProto &node);

  ::onnx::GraphProto &graph;
  const int opset;
  SubgraphWriter names;

private:
  std::string constantOf(llvm::ArrayRef<int64_t> numbers, llvm::StringRef name);
  void setNumbers(::onnx::NodeProto &node, llvm::ArrayRef<int64_t> numbers,
                  llvm::StringRef attribute, const std::string &input);

  const ::onnx::NodeProto *instead = nullptr;
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_NODEWRITER_H
