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

class BranchTaker {
public:
  BranchTaker(::onnx::GraphProto &graph, bool byInitializers) : graph(graph) {
    // What is an input, too, may be given another value.
    if (byInitializers)
      for (const auto &tensor : graph.initializer())
        if (std::optional<bool> truth = truthOf(tensor))
          known[tensor.name()] = *truth;
    for (const auto &input : graph.input())
      known.erase(input.name());
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
      branch.initializer_size() > 0 || branch.sparse_initializer_size() > 0)
    return nullptr;
  for (const ::onnx::NodeProto &inner : branch.node())
    for (const std::string &name : inner.output())
      if (names.contains(name))
        return nullptr;
  return &branch;
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
  for (const ::onnx::NodeProto &inner : branch->node())
    addNames(inner);
  for (const ::onnx::NodeProto &inner : branch->node()) {
    ::onnx::NodeProto copy = inner; // may be such a node itself
    take(copy);
  }
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty())
      continue;
    ::onnx::NodeProto *same = graph.add_node();
    same->set_op_type("Identity");
    same->set_name(node.name());
    same->add_input(branch->output(i).name());
    same->add_output(node.output(i));
  }
}

void takeConstantBranches(::onnx::GraphProto &graph, bool byInitializers) {
  auto branches = [](const auto &node) { return node.op_type() == "If"; };
  if (any_of(graph.node(), branches))
    BranchTaker(graph, byInitializers).run();
}

} // namespace shardonnx
