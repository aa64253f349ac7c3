// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the exporter wrote beside the graph: module paths, the signature that
// tells parameters from buffers, and what constants were folded from. The ONNX
// library erases metadata, so this is read before anything else happens.

#ifndef SHARDONNX_LIB_IMPORT_METADATA_H
#define SHARDONNX_LIB_IMPORT_METADATA_H

#include "DroppedArguments.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <optional>
#include <string>
#include <vector>

namespace onnx {
class ModelProto;
class NodeProto;
} // namespace onnx

namespace shardonnx {

/// What a parameter or a module lies in: "h.0.fc" of "h.0.fc.weight", "" of
/// what is at the root.
inline llvm::StringRef modulePath(llvm::StringRef name) {
  return name.contains('.') ? name.rsplit('.').first : llvm::StringRef();
}

/// A value that the framework's operator reads, without the '%': a placeholder
/// or another operator's result. `position` counts the operator's arguments
/// from 0 and is -1 for those that were given by name.
struct NodeArgument {
  std::string name;
  int position = -1;
};

/// One ONNX node as its exporter described it.
struct NodeInfo {
  std::string node;
  std::string op;
  /// Module path, for example "transformer.h.0.mlp"; may be empty.
  std::string path;
  /// What its ONNX node does not say.
  DroppedArguments dropped;
  /// The framework's own operator, for example "aten.linear.default".
  std::string target;
  /// The operator's result in the traced program, for example "linear_3". All
  /// nodes that compute it together have it.
  std::string call;
  /// Its result takes part in no gradient.
  bool underNoGrad = false;
  /// What the operator reads, in order.
  std::vector<NodeArgument> arguments;

  bool reads(llvm::StringRef name) const;
};

/// "linear" of the call "linear_3".
llvm::StringRef operatorOf(llvm::StringRef call);

/// One input of the exported program.
struct SignatureInput {
  std::string placeholder;
  std::string kind;
  /// The state-dict name of a parameter or buffer.
  std::string target;
};

/// One parameter as models/shardonnx_export.py describes it.
struct ModuleParameter {
  /// In the state dict; several where modules share it.
  std::vector<std::string> names;
  bool requiresGrad = true;
  /// The row of an embedding that gets no gradient.
  std::optional<int64_t> paddingIndex;
};

struct Metadata {
  /// By the name of each of the node's outputs: names survive what the ONNX
  /// library does to a model, metadata does not.
  llvm::StringMap<NodeInfo> nodes;
  std::vector<SignatureInput> signature;
  /// State-dict names of what forward writes, by that signature.
  std::vector<std::string> written;
  /// Names that a constant was folded from, by the constant's name.
  llvm::StringMap<std::vector<std::string>> foldedFrom;

  /// What the export's author wrote of the module; empty without the helper.
  std::vector<ModuleParameter> parameters;
  llvm::StringSet<> buffers;
  /// Modules that drop out in training, in an export that does not.
  std::vector<std::pair<std::string, double>> dropout;

  /// Classes of modules whose code stops gradients, and of those whose code
  /// calls torch.autocast().
  std::vector<std::string> stopping, autocasting;
  /// No region is of torch.autocast().
  bool onlyNoGrad = false;

  /// What is known of a node, or null.
  const NodeInfo *findInfo(const ::onnx::NodeProto &node) const;
  /// The same, empty where nothing is known.
  const NodeInfo &infoOf(const ::onnx::NodeProto &node) const;
  const SignatureInput *findTarget(llvm::StringRef target) const;
  /// The annotation of a parameter, by any of its names, or null.
  const ModuleParameter *findParameter(llvm::StringRef name) const;
  /// Whether an initializer is a parameter, or was folded from one.
  bool holdsParameter(llvm::StringRef initializer) const;
  /// Leaves what the graph says by itself.
  void forgetDropped();
};

Metadata readMetadata(const ::onnx::ModelProto &model);

/// Nodes that the ONNX library made carry no metadata: gives each the path of
/// the node that consumes it, or else of one that produces its input.
void completeMetadata(Metadata &metadata, const ::onnx::ModelProto &model);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_METADATA_H
