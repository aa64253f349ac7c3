// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See MergedCalls.h.

#include "MergedCalls.h"

#include "Metadata.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <onnx/onnx_pb.h>

namespace shardonnx {
namespace {

using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

/// A node that reads the result of `kept` where the program read `lost`.
struct Reader {
  ::onnx::NodeProto *node;
  int operand;
};

class CallSeparator {
public:
  CallSeparator(::onnx::GraphProto &graph, Metadata &metadata)
      : graph(graph), metadata(metadata) {}
  void run();

private:
  using Lost = llvm::MapVector<StringRef, SmallVector<Reader>>;

  void index();
  void findLost();
  StringRef callOf(StringRef value) const;
  const SignatureInput *parameterOf(StringRef placeholder) const;
  llvm::SetVector<StringRef> parametersOf(StringRef module) const;
  StringRef moduleRead(StringRef call) const;
  StringRef moduleOfLost(StringRef call) const;
  bool readsParameters(const ::onnx::NodeProto &node) const;
  bool hasMergedReaders(StringRef call) const;
  void separate(StringRef kept, StringRef lost, ArrayRef<Reader> readers);

  ::onnx::GraphProto &graph;
  Metadata &metadata;
  /// The nodes of each call of the traced program.
  llvm::StringMap<SmallVector<const ::onnx::NodeProto *>> calls;
  /// Of each value.
  llvm::StringMap<const ::onnx::NodeProto *> makers;
  llvm::StringMap<const SignatureInput *> placeholders;
  llvm::StringSet<> values, mentioned;
  /// By the call that stands for them.
  llvm::MapVector<StringRef, Lost> lost;
  /// Behind the node that they are copies of.
  llvm::DenseMap<const ::onnx::NodeProto *, SmallVector<::onnx::NodeProto>>
      copies;
};

void CallSeparator::index() {
  for (const SignatureInput &input : metadata.signature)
    placeholders[input.placeholder] = &input;
  for (const ::onnx::ValueInfoProto &input : graph.input())
    values.insert(input.name());
  for (const ::onnx::TensorProto &init : graph.initializer())
    values.insert(init.name());
  for (const ::onnx::NodeProto &node : graph.node()) {
    const NodeInfo &info = metadata.infoOf(node);
    values.insert_range(node.output());
    for (const std::string &output : node.output())
      makers[output] = &node;
    for (const NodeArgument &argument : info.arguments)
      mentioned.insert(argument.name);
    if (!info.call.empty())
      calls[info.call].push_back(&node);
  }
}

/// The call that makes a value; "" of inputs and of what no call is known of.
StringRef CallSeparator::callOf(StringRef value) const {
  const ::onnx::NodeProto *maker = makers.lookup(value);
  return maker ? StringRef(metadata.infoOf(*maker).call) : StringRef();
}

/// The parameter of a placeholder, or null.
const SignatureInput *CallSeparator::parameterOf(StringRef placeholder) const {
  const SignatureInput *input = placeholders.lookup(placeholder);
  return input && input->kind == "PARAMETER" ? input : nullptr;
}

/// What nodes read in the program and the graph does not have, where they read
/// a call of the same kind.
void CallSeparator::findLost() {
  for (::onnx::NodeProto &node : *graph.mutable_node()) {
    const NodeInfo &info = metadata.infoOf(node);
    for (const NodeArgument &argument : info.arguments) {
      StringRef name = argument.name;
      if (placeholders.contains(name) || values.contains(name) ||
          calls.contains(name))
        continue;
      for (int operand = 0; operand < node.input_size(); ++operand) {
        StringRef made = callOf(node.input(operand));
        if (made.empty() || made == info.call ||
            operatorOf(made) != operatorOf(name))
          continue;
        // Both may be read: then by their places.
        if (!info.reads(made) || argument.position == operand)
          lost[made][name].push_back({&node, operand});
      }
    }
  }
}

/// Placeholders of a module's own parameters.
llvm::SetVector<StringRef> CallSeparator::parametersOf(StringRef module) const {
  llvm::SetVector<StringRef> parameters;
  for (const SignatureInput &input : metadata.signature)
    if (input.kind == "PARAMETER" && modulePath(input.target) == module)
      parameters.insert(input.placeholder);
  return parameters;
}

/// The one module whose parameters a call reads.
StringRef CallSeparator::moduleRead(StringRef call) const {
  StringRef module;
  auto nodes = calls.find(call);
  for (const NodeArgument &argument :
       metadata.infoOf(*nodes->second.front()).arguments) {
    const SignatureInput *input = parameterOf(argument.name);
    if (!input)
      continue;
    StringRef its = modulePath(input->target);
    if (its.empty() || (!module.empty() && its != module))
      return "";
    module = its;
  }
  return module;
}

/// The one module beside that of `call` with parameters of the same names, none
/// of which any operator reads and no initializer is.
StringRef CallSeparator::moduleOfLost(StringRef call) const {
  StringRef module = moduleRead(call);
  if (module.empty())
    return "";
  auto leavesOf = [&](StringRef path) {
    llvm::StringSet<> leaves;
    for (StringRef parameter : parametersOf(path))
      leaves.insert(
          StringRef(placeholders.lookup(parameter)->target).rsplit('.').second);
    return leaves;
  };
  llvm::StringSet<> wanted = leavesOf(module);
  llvm::SetVector<StringRef> found;
  for (const SignatureInput &input : metadata.signature) {
    StringRef other = modulePath(input.target);
    if (input.kind != "PARAMETER" || other == module ||
        modulePath(other) != modulePath(module) || found.contains(other))
      continue;
    bool isFree = llvm::all_of(parametersOf(other), [&](StringRef parameter) {
      return !mentioned.contains(parameter) &&
             !values.contains(placeholders.lookup(parameter)->target);
    });
    llvm::StringSet<> leaves = leavesOf(other);
    if (isFree && leaves.size() == wanted.size() &&
        llvm::all_of(wanted, [&](const auto &leaf) {
          return leaves.contains(leaf.first());
        }))
      found.insert(other);
  }
  return found.size() == 1 ? found.front() : StringRef();
}

bool CallSeparator::readsParameters(const ::onnx::NodeProto &node) const {
  return llvm::any_of(
      metadata.infoOf(node).arguments,
      [&](const NodeArgument &argument) { return parameterOf(argument.name); });
}

/// Whether what reads the result of a call, itself or through operators without
/// parameters, was merged, too: nothing says which of the two results the lost
/// one read.
bool CallSeparator::hasMergedReaders(StringRef call) const {
  llvm::SetVector<const ::onnx::NodeProto *> behind;
  for (const auto &[kept, names] : lost)
    if (kept != call)
      behind.insert_range(calls.find(kept)->second);
  for (size_t i = 0; i < behind.size(); ++i) {
    const ::onnx::NodeProto *node = behind[i];
    for (const std::string &input : node->input()) {
      if (callOf(input) == call)
        return true;
      const ::onnx::NodeProto *maker = makers.lookup(input);
      if (maker && !readsParameters(*node))
        behind.insert(maker);
    }
  }
  return false;
}

/// Copies the nodes of `kept` as those of `lost`, and gives them its readers.
void CallSeparator::separate(StringRef kept, StringRef lostCall,
                             ArrayRef<Reader> readers) {
  StringRef from = moduleRead(kept), to = moduleOfLost(kept);
  if (to.empty() || hasMergedReaders(kept))
    return;
  llvm::StringMap<std::string> renamed; // results of the nodes
  for (const ::onnx::NodeProto *node : calls[kept])
    for (const std::string &output : node->output())
      renamed[output] =
          output == kept ? lostCall.str() : (lostCall + "." + output).str();
  for (const ::onnx::NodeProto *node : calls[kept]) {
    ::onnx::NodeProto copy = *node;
    copy.set_name(node->name() + "." + lostCall.str());
    for (std::string &input : *copy.mutable_input())
      if (auto own = renamed.find(input); own != renamed.end())
        input = own->second;
    NodeInfo info = metadata.infoOf(*node);
    info.node = copy.name();
    info.call = lostCall.str();
    if (info.path == from)
      info.path = to.str();
    for (NodeArgument &argument : info.arguments)
      if (const SignatureInput *input = placeholders.lookup(argument.name);
          input && modulePath(input->target) == from)
        for (StringRef parameter : parametersOf(to))
          if (StringRef(placeholders.lookup(parameter)->target)
                  .rsplit('.')
                  .second == StringRef(input->target).rsplit('.').second) {
            argument.name = parameter.str();
            break;
          }
    for (std::string &output : *copy.mutable_output()) {
      output = renamed[output];
      metadata.nodes[output] = info;
    }
    copies[node].push_back(std::move(copy));
  }
  for (const Reader &reader : readers) // one may be told twice: x * x
    if (auto own = renamed.find(reader.node->input(reader.operand));
        own != renamed.end())
      reader.node->set_input(reader.operand, own->second);
  mentioned.insert_range(parametersOf(to));
}

void CallSeparator::run() {
  if (metadata.signature.empty())
    return;
  index();
  findLost();
  // Of several that one stands for, which is whose is not known.
  for (auto &[kept, names] : lost)
    if (names.size() == 1)
      separate(kept, names.front().first, names.front().second);
  if (copies.empty())
    return;
  google::protobuf::RepeatedPtrField<::onnx::NodeProto> nodes;
  for (::onnx::NodeProto &node : *graph.mutable_node()) {
    auto behind = copies.find(&node);
    *nodes.Add() = std::move(node);
    if (behind != copies.end())
      for (::onnx::NodeProto &copy : behind->second)
        *nodes.Add() = std::move(copy);
  }
  graph.mutable_node()->Swap(&nodes);
}

} // namespace

void separateMergedCalls(::onnx::GraphProto &graph, Metadata &metadata) {
  CallSeparator(graph, metadata).run();
}

} // namespace shardonnx
