// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See ConstantBranches.h.

#include "ConstantBranches.h"

#include "Subgraphs.h"

#include "llvm/ADT/STLExtras.h"

#include <onnx/onnx_pb.h>

using namespace llvm;

namespace shardonnx {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<::onnx::NodeProto>;

class BranchTaker {
public:
  BranchTaker(::onnx::GraphProto &graph, StringMap<bool> truths)
      : graph(graph), known(std::move(truths)), writer(graph) {}

  void run() {
    Nodes nodes;
    nodes.Swap(graph.mutable_node());
    for (::onnx::NodeProto &node : nodes)
      take(node);
  }

private:
  const ::onnx::GraphProto *branchOf(const ::onnx::NodeProto &node) const;
  std::optional<bool> truthOfNode(const ::onnx::NodeProto &node) const;
  void take(::onnx::NodeProto &node);

  ::onnx::GraphProto &graph;
  StringMap<bool> known; // truth values
  SubgraphWriter writer;
};

} // namespace

std::optional<bool> truthOf(const ::onnx::TensorProto &tensor) {
  if (tensor.data_type() != ::onnx::TensorProto::BOOL)
    return std::nullopt;
  if (tensor.raw_data().size() == 1)
    return tensor.raw_data()[0] != 0;
  if (tensor.int32_data_size() == 1)
    return tensor.int32_data(0) != 0;
  return std::nullopt;
}

std::optional<bool> truthOfConstant(const ::onnx::NodeProto &node) {
  if (const auto *value = findAttribute(node, "value"))
    return truthOf(value->t());
  if (const auto *value = findAttribute(node, "value_int"))
    return value->i() != 0;
  return std::nullopt;
}

/// The branch that is taken, where it can stand in the graph as it is.
const ::onnx::GraphProto *
BranchTaker::branchOf(const ::onnx::NodeProto &node) const {
  if (!isOp(node, "If") || node.input_size() != 1)
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
      !SubgraphWriter::canStandOutside(branch))
    return nullptr;
  return &branch;
}

/// Of what a function makes of one of its attributes, too: Cast(Constant).
std::optional<bool>
BranchTaker::truthOfNode(const ::onnx::NodeProto &node) const {
  StringRef op = node.op_type();
  if (node.output_size() != 1)
    return std::nullopt;
  if (op == "Constant")
    return truthOfConstant(node);
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
  SubgraphWriter::Copy copy = writer.copy(*branch, {});
  for (::onnx::NodeProto &inner : copy.nodes)
    take(inner); // may be such a node itself
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty())
      continue;
    ::onnx::NodeProto *same = graph.add_node();
    same->set_op_type("Identity");
    same->set_name(node.name());
    same->add_input(copy.results[i]);
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
