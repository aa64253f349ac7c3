// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What control flow carries: branches of `If`, bodies of `Loop` and `Scan`.

#ifndef SHARDONNX_LIB_IMPORT_SUBGRAPHS_H
#define SHARDONNX_LIB_IMPORT_SUBGRAPHS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include <string>
#include <vector>

namespace onnx {
class AttributeProto;
class GraphProto;
class NodeProto;
class TensorProto;
} // namespace onnx

namespace shardonnx {

/// Null where the node has no such attribute.
const ::onnx::AttributeProto *findAttribute(const ::onnx::NodeProto &node,
                                            llvm::StringRef name);

/// Of an integer; `otherwise` where the node has no such attribute.
int64_t intAttribute(const ::onnx::NodeProto &node, llvm::StringRef name,
                     int64_t otherwise);

/// Whether a TensorProto.DataType is one of floats of 16, 32 or 64 bits.
bool isFloat(int dataType);

/// Adds the attribute, which the node must not have.
void addAttribute(::onnx::NodeProto &node, llvm::StringRef name, int64_t value);
void addAttribute(::onnx::NodeProto &node, llvm::StringRef name,
                  llvm::StringRef value);
void addAttribute(::onnx::NodeProto &node, llvm::StringRef name,
                  llvm::ArrayRef<int64_t> values);
void addAttribute(::onnx::NodeProto &node, llvm::StringRef name,
                  ::onnx::TensorProto value);

/// Adds the names that the node reads, and those that its bodies do.
void addReads(const ::onnx::NodeProto &node, llvm::StringSet<> &reads);

/// Replaces the node by a Constant.
void makeConstant(::onnx::NodeProto &node, ::onnx::TensorProto value);

/// Drops nodes that `mayGo` and whose results nobody reads, from the last on.
void dropUnreadNodes(::onnx::GraphProto &graph,
                     llvm::function_ref<bool(const ::onnx::NodeProto &)> mayGo);

/// The numbers as a vector of int64.
::onnx::TensorProto asTensor(llvm::ArrayRef<int64_t> numbers);

/// At the end of the graph.
::onnx::NodeProto &appendNode(::onnx::GraphProto &graph, llvm::StringRef op,
                              llvm::ArrayRef<std::string> inputs,
                              llvm::ArrayRef<std::string> outputs,
                              llvm::StringRef name = "");

/// Makes the node that was appended number `position`.
void moveLastNode(::onnx::GraphProto &graph, int position);

/// Branches and loops depend on data, which a compiled step cannot.
bool isControlFlow(const ::onnx::NodeProto &node);

/// Whether `node` is of the default domain, and this op.
bool isOp(const ::onnx::NodeProto &node, llvm::StringRef op);

/// Whether it makes integers or flags alone: no gradient goes through them,
/// wherever they stand.
bool hasNoGradient(const ::onnx::NodeProto &node);

/// Whether training could change it; without a signature a single float is
/// taken for a constant.
bool mayBeWeight(const ::onnx::TensorProto &tensor);

/// Writes nodes of subgraphs as nodes of the graph around them.
class SubgraphWriter {
public:
  /// The names of the graph's values are taken.
  explicit SubgraphWriter(const ::onnx::GraphProto &graph);

  /// Initializers become Constants: weights, which training could change, stay
  /// where they are.
  static bool canStandOutside(const ::onnx::GraphProto &subgraph);

  struct Copy {
    std::vector<::onnx::NodeProto> nodes;
    std::vector<std::string> results;
  };
  /// The inputs of the subgraph are the values named `inputs`; what is named as
  /// a value of the graph or of an earlier copy gets a new name.
  Copy copy(const ::onnx::GraphProto &subgraph,
            llvm::ArrayRef<std::string> inputs);

  /// A name that no value has; it is taken from then on.
  std::string newName(llvm::StringRef name);

private:
  llvm::StringMap<unsigned> taken; // names, and how often others wanted them
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_SUBGRAPHS_H
