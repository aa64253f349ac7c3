// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See ConstantBranches.h.

#include "ConstantBranches.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <onnx/onnx_pb.h>

#include <optional>

using namespace llvm;

namespace shardonnx {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<::onnx::NodeProto>;

std::optional<bool> truthOf(const ::onnx::TensorProto &tensor) {
  if (tensor.data_type() != ::onnx::TensorProto::BOOL)
    return std::nullopt;
  if (tensor.raw_data().size() == 1)
    return tensor.raw_data()[0] != 0;
  if (tensor.int32_data_size() == 1)
    return tensor.int32_data(0) != 0;
  return std::nullopt;
}

const ::onnx::AttributeProto *findAttribute(const ::onnx::NodeProto &node,
                                            StringRef name) {
  auto found = find_if(node.attribute(), [&](const auto &attribute) {
    return attribute.name() == name;
  });
  return found == node.attribute().end() ? nullptr : &*found;
}

using NewNames = StringMap<std::string>;

void rename(std::string &name, const NewNames &newNames) {
  auto found = newNames.find(name);
  if (found != newNames.end())
    name = found->second;
}

/// Branches inside may read what is renamed; what they name as it was named is
/// renamed with it, in all that reads it.
void renameAll(::onnx::NodeProto &node, const NewNames &newNames) {
  for (std::string &name : *node.mutable_input())
    rename(name, newNames);
  for (std::string &name : *node.mutable_output())
    rename(name, newNames);
  for (::onnx::AttributeProto &attribute : *node.mutable_attribute()) {
    if (!attribute.has_g())
      continue;
    for (::onnx::NodeProto &inner : *attribute.mutable_g()->mutable_node())
      renameAll(inner, newNames);
    for (auto &output : *attribute.mutable_g()->mutable_output())
      rename(*output.mutable_name(), newNames);
    for (auto &tensor : *attribute.mutable_g()->mutable_initializer())
      rename(*tensor.mutable_name(), newNames);
  }
}

/// Whether training could change it: as a Constant it would not.
bool mayBeWeight(const ::onnx::TensorProto &tensor) {
  switch (tensor.data_type()) {
  case ::onnx::TensorProto::FLOAT:
  case ::onnx::TensorProto::DOUBLE:
  case ::onnx::TensorProto::FLOAT16:
  case ::onnx::TensorProto::BFLOAT16:
    return any_of(tensor.dims(), [](int64_t size) { return size != 1; });
  default:
    return false;
  }
}

/// An initializer of a branch, as a node.
::onnx::NodeProto asNode(const ::onnx::TensorProto &tensor) {
  ::onnx::NodeProto node;
  node.set_op_type("Constant");
  node.set_name(tensor.name());
  node.add_output(tensor.name());
  ::onnx::AttributeProto *value = node.add_attribute();
  value->set_name("value");
  value->set_type(::onnx::AttributeProto::TENSOR);
  *value->mutable_t() = tensor;
  return node;
}

class BranchTaker {
public:
  BranchTaker(::onnx::GraphProto &graph, StringMap<bool> truths)
      : graph(graph), known(std::move(truths)) {
    for (const auto &tensor : graph.initializer())
      names.insert(tensor.name());
    for (const auto &input : graph.input())
      names.insert(input.name());
    for (const auto &node : graph.node())
      addNames(node);
  }

  void run() {
    Nodes nodes;
    nodes.Swap(graph.mutable_node());
    for (::onnx::NodeProto &node : nodes)
      take(node);
  }

private:
  void addNames(const ::onnx::NodeProto &node) {
    for (const std::string &name : node.output())
      names.insert(name);
  }

  const ::onnx::GraphProto *branchOf(const ::onnx::NodeProto &node) const;
  std::optional<bool> truthOfNode(const ::onnx::NodeProto &node) const;
  NewNames newNamesOf(const std::vector<::onnx::NodeProto> &nodes);
  void take(::onnx::NodeProto &node);

  ::onnx::GraphProto &graph;
  StringMap<bool> known; // truth values
  StringSet<> names;     // of all values that are not in a branch
};

} // namespace

/// The branch that is taken, where it can stand in the graph as it is.
const ::onnx::GraphProto *
BranchTaker::branchOf(const ::onnx::NodeProto &node) const {
  bool ours = node.domain().empty() || node.domain() == "ai.onnx";
  if (!ours || node.op_type() != "If" || node.input_size() != 1)
    return nullptr;
  auto truth = known.find(node.input(0));
  if (truth == known.end())
    return nullptr;
  const ::onnx::AttributeProto *attribute =
      findAttribute(node, truth->second ? "then_branch" : "else_branch");
  if (!attribute || !attribute->has_g())
    return nullptr;
  const ::onnx::GraphProto &branch = attribute->g();
  if (branch.output_size() != node.output_size() || branch.input_size() > 0 ||
      branch.sparse_initializer_size() > 0 ||
      any_of(branch.initializer(), mayBeWeight))
    return nullptr;
  return &branch;
}

/// For what has a name that is taken. All names are taken from then on.
NewNames BranchTaker::newNamesOf(const std::vector<::onnx::NodeProto> &nodes) {
  NewNames newNames;
  for (const ::onnx::NodeProto &node : nodes)
    for (const std::string &name : node.output()) {
      if (name.empty() || names.insert(name).second)
        continue;
      unsigned number = 1;
      std::string other;
      do
        other = name + "_" + std::to_string(number++);
      while (!names.insert(other).second);
      newNames[name] = other;
    }
  return newNames;
}

/// Of what a function makes of one of its attributes, too: Cast(Constant).
std::optional<bool>
BranchTaker::truthOfNode(const ::onnx::NodeProto &node) const {
  StringRef op = node.op_type();
  if (node.output_size() != 1)
    return std::nullopt;
  if (op == "Constant") {
    if (const auto *value = findAttribute(node, "value"))
      return truthOf(value->t());
    if (const auto *value = findAttribute(node, "value_int"))
      return value->i() != 0;
  }
  if (node.input_size() != 1 ||
      (op != "Cast" && op != "Not" && op != "Identity"))
    return std::nullopt;
  auto truth = known.find(node.input(0));
  if (truth == known.end())
    return std::nullopt;
  return truth->second != (op == "Not");
}

void BranchTaker::take(::onnx::NodeProto &node) {
  const ::onnx::GraphProto *branch = branchOf(node);
  if (!branch) {
    if (std::optional<bool> truth = truthOfNode(node))
      known[node.output(0)] = *truth;
    graph.add_node()->Swap(&node);
    return;
  }
  std::vector<::onnx::NodeProto> nodes; // copies
  for (const ::onnx::TensorProto &tensor : branch->initializer())
    nodes.push_back(asNode(tensor));
  nodes.insert(nodes.end(), branch->node().begin(), branch->node().end());
  NewNames newNames = newNamesOf(nodes);
  std::vector<std::string> results;
  for (const auto &output : branch->output())
    rename(results.emplace_back(output.name()), newNames);
  for (::onnx::NodeProto &inner : nodes) {
    renameAll(inner, newNames);
    take(inner); // may be such a node itself
  }
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty())
      continue;
    ::onnx::NodeProto *same = graph.add_node();
    same->set_op_type("Identity");
    same->set_name(node.name());
    same->add_input(results[i]);
    same->add_output(node.output(i));
  }
}

static bool hasBranches(const ::onnx::GraphProto &graph) {
  return any_of(graph.node(),
                [](const auto &node) { return node.op_type() == "If"; });
}

void takeConstantBranches(::onnx::GraphProto &graph, bool byInitializers) {
  if (!hasBranches(graph))
    return;
  StringMap<bool> truths;
  if (byInitializers)
    for (const auto &tensor : graph.initializer())
      if (std::optional<bool> truth = truthOf(tensor))
        truths[tensor.name()] = *truth;
  // What is an input, too, may be given another value.
  for (const auto &input : graph.input())
    truths.erase(input.name());
  BranchTaker(graph, std::move(truths)).run();
}

void takeKnownBranches(::onnx::GraphProto &graph,
                       const StringMap<bool> &truths) {
  if (hasBranches(graph))
    BranchTaker(graph, truths).run();
}

} // namespace shardonnx
