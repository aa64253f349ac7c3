// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See UntrainedParameters.h.

#include "UntrainedParameters.h"

#include "KnownBuffers.h"

#include "FoldedParameters.h"
#include "InitializerTable.h"
#include "Metadata.h"
#include "Untold.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

#include <onnx/onnx_pb.h>

#include <optional>

using namespace mlir;

namespace shardonnx {

namespace {

class Missing {
public:
  Missing(const ::onnx::GraphProto &graph, const Metadata &metadata,
          StringRef modelPath, ArrayRef<Initializer> initializers,
          bool forTraining, std::vector<Untrained> &untrained)
      : graph(graph), metadata(metadata), modelPath(modelPath),
        initializers(initializers), forTraining(forTraining),
        untrained(untrained) {
    for (const Initializer &init : initializers)
      byName[init.name] = &init;
  }

  void list();

private:
  struct Why {
    std::string reason;
    bool isLost; // the module's training is
  };
  bool holdsUnread(StringRef module, const SignatureInput &input) const;
  bool isOtherName(const SignatureInput &input) const;
  llvm::StringSet<> namesThere() const;
  bool lacksBias() const;
  SmallVector<StringRef> leavesOfMissing(StringRef module) const;
  StringRef twinOf(StringRef name) const;
  StringRef findFoldedTwin() const;
  Why whyMissing(StringRef name, const SignatureInput &input) const;
  void add(const std::string &name, const Why &why);
  void listComputed();
  void listQuantized();
  bool isFoldedWithoutGradient(const Initializer &init) const;
  void listFoldedInPart();

  const ::onnx::GraphProto &graph;
  const Metadata &metadata;
  StringRef modelPath;
  ArrayRef<Initializer> initializers;
  bool forTraining;
  std::vector<Untrained> &untrained;
  llvm::StringMap<const Initializer *> byName;
  mutable std::optional<StringRef> foldedTwin; // the same for all that ask
};

} // namespace

/// Whether a module inside of the model has another parameter than `input` that
/// nothing reads.
bool Missing::holdsUnread(StringRef module, const SignatureInput &input) const {
  if (module.empty() || StringRef(input.target).count('.') < 2)
    return false;
  return llvm::any_of(metadata.signature, [&](const SignatureInput &other) {
    return other.kind == "PARAMETER" && other.target != input.target &&
           StringRef(other.target).starts_with((module + ".").str()) &&
           llvm::none_of(initializers,
                         [&](const Initializer &init) {
                           return init.symbol == other.target;
                         }) &&
           llvm::none_of(metadata.nodes, [&](const auto &node) {
             return node.second.reads(other.placeholder);
           });
  });
}

/// Whether a parameter that no operation mentions may be another name of one
/// that modules share: all of them read it under one name. Then other modules
/// than its own read it (the module that it is named after or, of one that has
/// nothing else, any: T5's `shared`; unless what holds that module is not
/// called either, as Whisper's cross-attention without its decoder), or a
/// module has it again from one inside (BERT's `predictions.bias` is
/// `predictions.decoder.bias`). A node that has a copy, such as a transposed
/// one, tells what it read before.
bool Missing::isOtherName(const SignatureInput &input) const {
  auto [module, leaf] = StringRef(input.target).rsplit('.');
  bool shared = false;
  for (const auto &folded : metadata.foldedFrom)
    if (llvm::is_contained(folded.second, input.target))
      return false;
  bool alone = !holdsUnread(module.rsplit('.').first, input);
  llvm::StringMap<StringRef> targets;
  for (const SignatureInput &other : metadata.signature) {
    targets[other.placeholder] = other.target;
    alone &= other.target == input.target ||
             StringRef(other.target).rsplit('.').first != module;
  }
  for (const ::onnx::NodeProto &node : graph.node()) {
    const NodeInfo *info = metadata.findInfo(node);
    if (!info)
      continue;
    if (info->reads(input.placeholder))
      return false;
    SmallVector<StringRef> read(node.input().begin(), node.input().end());
    for (const NodeArgument &argument : info->arguments)
      read.push_back(targets.lookup(argument.name));
    for (StringRef name : read)
      if (const Initializer *init = byName.lookup(name))
        shared |=
            init->isParameter && !leaf.empty() &&
            StringRef(init->symbol).rsplit('.').second == leaf &&
            (StringRef(init->symbol).starts_with((module + ".").str()) ||
             (init->type.getRank() > 1 && (alone || info->path == module) &&
              info->path != StringRef(init->symbol).rsplit('.').first));
  }
  return shared && !metadata.findParameter(input.target);
}

/// The names of what the graph has of the traced program.
llvm::StringSet<> Missing::namesThere() const {
  llvm::StringSet<> known;
  for (const auto &node : metadata.nodes)
    known.insert_range(std::initializer_list<StringRef>{
        node.first(), StringRef(node.second.call)});
  for (const SignatureInput &input : metadata.signature)
    known.insert(input.placeholder);
  for (const Initializer &init : initializers)
    known.insert(init.name);
  return known;
}

/// Whether a linear layer has read a bias that was computed from parameters,
/// such as a part of one, and the exporter has dropped.
bool Missing::lacksBias() const {
  llvm::StringSet<> known = namesThere();
  return llvm::any_of(metadata.nodes, [&](const auto &node) {
    const NodeInfo &info = node.second;
    int place = StringRef(info.target).starts_with("aten.linear")  ? 2
                : StringRef(info.target).starts_with("aten.addmm") ? 0
                                                                   : -1;
    return place >= 0 &&
           llvm::any_of(info.arguments, [&](const NodeArgument &argument) {
             return argument.position == place &&
                    !known.contains(argument.name);
           });
  });
}

/// What the parameters of a module are called in it; nothing where the graph
/// has one of them.
SmallVector<StringRef> Missing::leavesOfMissing(StringRef module) const {
  llvm::SetVector<StringRef> leaves;
  auto add = [&](StringRef name) {
    auto [path, leaf] = name.rsplit('.');
    if (!leaf.empty() && path == module)
      leaves.insert(leaf);
  };
  for (const SignatureInput &input : metadata.signature)
    if (input.kind == "PARAMETER")
      add(input.target);
  for (const ModuleParameter &parameter : metadata.parameters)
    add(parameter.names.front());
  for (const Initializer &init : initializers)
    if (StringRef(init.symbol).rsplit('.').first == module)
      return {};
  return leaves.takeVector();
}

/// A module beside that of `name` which may be both: where two read the same
/// values and start with the same numbers (norms of ones, heads of zeros), the
/// exporter's optimizer makes one of them.
StringRef Missing::twinOf(StringRef name) const {
  StringRef module = name.rsplit('.').first;
  SmallVector<StringRef> leaves = leavesOfMissing(module);
  llvm::MapVector<StringRef, size_t> equal; // module -> parameters that fit
  for (const Initializer &init : initializers) {
    auto [other, leaf] = StringRef(init.symbol).rsplit('.');
    if (!init.trainable || modulePath(other) != modulePath(module))
      continue;
    bool fits =
        llvm::is_contained(leaves, leaf) && hasEqualElements(init, modelPath);
    equal[other] += fits ? 1 : leaves.size() + 1;
  }
  for (const auto &[other, count] : equal)
    if (count == leaves.size())
      return other;
  return "";
}

/// A parameter of which the exporter has folded something, and then made one of
/// that and another value of the same operator, which a node has read.
StringRef Missing::findFoldedTwin() const {
  llvm::StringSet<> known = namesThere();
  for (const ::onnx::NodeProto &node : graph.node()) {
    const NodeInfo &info = metadata.infoOf(node);
    for (const std::string &input : node.input()) {
      auto folded = metadata.foldedFrom.find(input);
      if (folded == metadata.foldedFrom.end() || info.reads(input))
        continue;
      auto source = llvm::find_if(folded->second, [&](const auto &name) {
        const SignatureInput *parameter = metadata.findTarget(name);
        return parameter && parameter->kind == "PARAMETER";
      });
      if (source != folded->second.end() &&
          llvm::any_of(info.arguments, [&](const NodeArgument &argument) {
            return !known.contains(argument.name) &&
                   !metadata.foldedFrom.contains(argument.name) &&
                   operatorOf(argument.name) == operatorOf(input);
          }))
        return *source;
    }
  }
  return "";
}

/// Why the graph lacks a parameter of the program, `input` of its signature.
Missing::Why Missing::whyMissing(StringRef name,
                                 const SignatureInput &input) const {
  Why leftOut = {"left out of the graph by the exporter", true};
  for (const auto &folded : metadata.foldedFrom)
    if (!input.target.empty() &&
        llvm::is_contained(folded.second, input.target))
      return {
          ("folded into the constant '" + folded.first() + "' by the exporter")
              .str(),
          true};
  for (const auto &node : metadata.nodes)
    if (!input.target.empty() && node.second.reads(input.placeholder))
      return leftOut;
  if (StringRef(input.target).ends_with("bias") && lacksBias())
    return leftOut;
  StringRef twin = forTraining ? twinOf(name) : StringRef();
  if (!twin.empty()) // which may as well be one that nothing reads
    return {("not in the graph: perhaps made one with that of '" + twin +
             "' by the exporter")
                .str(),
            false};
  if (!foldedTwin)
    foldedTwin = forTraining ? findFoldedTwin() : StringRef();
  if (!foldedTwin->empty())
    return {("not in the graph: perhaps folded, and made one with '" +
             *foldedTwin + "' by the exporter")
                .str(),
            true};
  return {"not in the graph: nothing reads it, or the exporter left it out",
          false};
}

/// A parameter that the graph does not have. What the exporter has done to it
/// cannot be undone.
void Missing::add(const std::string &name, const Why &why) {
  const ModuleParameter *annotated = metadata.findParameter(name);
  if (annotated && !annotated->requiresGrad)
    return untrained.push_back({name, "requires_grad=False", true});
  untrained.push_back({name, why.reason, false, why.isLost});
}

/// What the older exporter has computed of parameters that train, by the word
/// of the author: it may be of any, also of those that the graph has.
void Missing::listComputed() {
  llvm::StringSet<> read;
  for (const ::onnx::NodeProto &node : graph.node())
    for (const std::string &input : node.input())
      read.insert(input);
  for (const Initializer &init : initializers)
    if (!init.isParameter && !init.isConstant && isComputedName(init.name) &&
        !isBufferByUse(graph, init.name) &&
        isa<FloatType>(init.type.getElementType()) &&
        read.contains(init.name) &&
        !isBufferByNumbers(graph, init, modelPath, /*named=*/true))
      untrained.push_back({init.symbol,
                           "computed from others by the older exporter", false,
                           true});
}

/// Weights that a tool has quantized: integers have no gradient.
void Missing::listQuantized() {
  llvm::StringSet<> listed;
  for (const ::onnx::NodeProto &node : graph.node()) {
    const Initializer *init =
        node.op_type() == "DequantizeLinear" && node.input_size() > 0
            ? byName.lookup(node.input(0))
            : nullptr;
    if (init && init->type.getRank() > 0 && listed.insert(init->symbol).second)
      untrained.push_back({init->symbol, "quantized to integers"});
  }
}

/// Whether no gradient went from a folded constant to what it was folded from:
/// of that the program took the shape, or a copy that is detached.
bool Missing::isFoldedWithoutGradient(const Initializer &init) const {
  SmallVector<StringRef> values = {init.name};
  llvm::append_range(values, metadata.foldedFrom.find(init.name)->second);
  return llvm::any_of(values, [](StringRef value) {
    return isResultOf(value, "zeros_like") || isResultOf(value, "ones_like") ||
           isResultOf(value, "full_like") || isResultOf(value, "detach");
  });
}

/// What the exporter has computed of parameters that the graph has, for some
/// of their uses, where no gradient would go: a column of a matrix.
void Missing::listFoldedInPart() {
  llvm::StringSet<> read, listed;
  for (const ::onnx::NodeProto &node : graph.node())
    read.insert_range(node.input());
  for (const Initializer &init : initializers) {
    auto folded = metadata.foldedFrom.find(init.name);
    if (init.isParameter || folded == metadata.foldedFrom.end() ||
        !isa<FloatType>(init.type.getElementType()) ||
        !read.contains(init.name) || isFoldedWithoutGradient(init))
      continue;
    for (const std::string &source : folded->second) {
      const Initializer *parameter = byName.lookup(source);
      if (parameter && parameter->trainable && listed.insert(source).second)
        untrained.push_back({source,
                             "in part folded into the constant '" + init.name +
                                 "' by the exporter",
                             false, true});
    }
  }
}

/// Every parameter of the module that the graph does not have. Without the
/// author's word or a signature none is known.
void Missing::list() {
  llvm::StringSet<> present;
  for (const Initializer &init : initializers) {
    present.insert(init.symbol);
    present.insert_range(init.names);
  }
  for (const SignatureInput &input : metadata.signature)
    if (input.kind == "PARAMETER" && present.insert(input.target).second &&
        !isOtherName(input))
      add(input.target, whyMissing(input.target, input));
  for (const ModuleParameter &parameter : metadata.parameters)
    if (llvm::none_of(parameter.names, [&](const std::string &name) {
          return present.contains(name);
        }))
      add(parameter.names.front(), whyMissing(parameter.names.front(), {}));
  if (forTraining && !metadata.parameters.empty() && metadata.signature.empty())
    listComputed();
  if (forTraining && metadata.parameters.empty() && metadata.signature.empty())
    listQuantized();
  if (forTraining)
    listFoldedInPart();
}

void listMissing(const ::onnx::GraphProto &graph, const Metadata &metadata,
                 StringRef modelPath, ArrayRef<Initializer> initializers,
                 bool forTraining, std::vector<Untrained> &untrained) {
  Missing(graph, metadata, modelPath, initializers, forTraining, untrained)
      .list();
}

} // namespace shardonnx
