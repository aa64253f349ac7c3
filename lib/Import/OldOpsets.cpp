// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See OldOpsets.h. The converter of ONNX 1.23 takes Hardmax of opset 12 for
// that of 13, and Resize of opset 10 (as which Upsample comes, too) for that of
// 11, whose coordinates are others; a Pad's sizes become an initializer; a
// softmax of an empty tensor loses its shape.

#include "OldOpsets.h"

#include "llvm/ADT/StringMap.h"

#include <onnx/onnx_pb.h>

#include <algorithm>

namespace shardonnx {
namespace {

using ::onnx::AttributeProto;
using ::onnx::NodeProto;
using Nodes = ::google::protobuf::RepeatedPtrField<NodeProto>;

/// The last opsets in which Hardmax is of rows of a matrix, and in which
/// coordinates are multiples of the scale.
constexpr int lastHardmaxOfMatrix = 12, lastAsymmetricResize = 10;

void setInt(NodeProto &node, const char *name, int64_t value) {
  AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(AttributeProto::INT);
  attribute.set_i(value);
}

void setString(NodeProto &node, const char *name, const char *value) {
  AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(AttributeProto::STRING);
  attribute.set_s(value);
}

/// A node that stands for a part of another.
NodeProto &addPart(::onnx::GraphProto &graph, const NodeProto &of,
                   const char *op, std::initializer_list<std::string> inputs,
                   const std::string &output) {
  NodeProto &node = *graph.add_node();
  node.set_name(of.name());
  node.set_doc_string(of.doc_string());
  node.set_op_type(op);
  for (const std::string &input : inputs)
    node.add_input(input);
  node.add_output(output);
  return node;
}

/// Hardmax of a matrix whose rows are the axes from `axis` on.
void writeOutHardmax(::onnx::GraphProto &graph, const NodeProto &node) {
  int64_t axis = 1;
  for (const AttributeProto &attribute : node.attribute())
    if (attribute.name() == "axis")
      axis = attribute.i();
  const std::string &x = node.input(0), &y = node.output(0);
  addPart(graph, node, "Shape", {x}, y + "/shape");
  setInt(addPart(graph, node, "Flatten", {x}, y + "/rows"), "axis", axis);
  setInt(addPart(graph, node, "Hardmax", {y + "/rows"}, y + "/hardmax"), "axis",
         -1);
  addPart(graph, node, "Reshape", {y + "/hardmax", y + "/shape"}, y);
}

bool isSoftmax(const NodeProto &node) {
  const std::string &op = node.op_type();
  return op == "Softmax" || op == "LogSoftmax" || op == "Hardmax";
}

/// Whether a Reshape puts the softmax of a flattened tensor back into that
/// one's shape, as softmaxes of matrices are written out.
bool restoresShape(const NodeProto &reshape,
                   const llvm::StringMap<const NodeProto *> &producers) {
  auto producer = [&](const NodeProto *node, int input) {
    return node && input < node->input_size()
               ? producers.lookup(node->input(input))
               : nullptr;
  };
  const NodeProto *shape = producer(&reshape, 1);
  const NodeProto *softmax = producer(&reshape, 0);
  const NodeProto *flatten = producer(softmax, 0);
  return reshape.op_type() == "Reshape" && shape && flatten &&
         shape->op_type() == "Shape" && flatten->op_type() == "Flatten" &&
         isSoftmax(*softmax) && shape->input(0) == flatten->input(0);
}

void keepEmptyShapes(Nodes &nodes) {
  llvm::StringMap<const NodeProto *> producers;
  for (const NodeProto &node : nodes)
    for (const std::string &output : node.output())
      producers[output] = &node;
  for (NodeProto &node : nodes)
    if (restoresShape(node, producers))
      setInt(node, "allowzero", 1); // else zero means another length
}

/// Of the initializers that are not known.
void makeConstants(::onnx::GraphProto &graph, const llvm::StringSet<> &known) {
  auto &tensors = *graph.mutable_initializer();
  auto made = std::stable_partition(
      tensors.begin(), tensors.end(),
      [&](const auto &tensor) { return known.contains(tensor.name()); });
  for (auto it = made; it != tensors.end(); ++it) {
    NodeProto &node = *graph.add_node();
    node.set_op_type("Constant");
    node.add_output(it->name());
    AttributeProto &value = *node.add_attribute();
    value.set_name("value");
    value.set_type(AttributeProto::TENSOR);
    value.mutable_t()->Swap(&*it);
  }
  tensors.erase(made, tensors.end());
}

} // namespace

void writeOutOldOps(::onnx::GraphProto &graph, int opset) {
  if (opset > lastHardmaxOfMatrix)
    return;
  Nodes nodes;
  nodes.Swap(graph.mutable_node());
  for (NodeProto &node : nodes) {
    bool whole = node.input_size() == 1 && node.output_size() == 1;
    if (node.op_type() == "Hardmax" && node.domain().empty() && whole)
      writeOutHardmax(graph, node);
    else
      graph.add_node()->Swap(&node);
  }
}

void completeConverted(::onnx::GraphProto &graph, int opset,
                       const llvm::StringSet<> &known) {
  Nodes nodes;
  nodes.Swap(graph.mutable_node());
  makeConstants(graph, known);
  keepEmptyShapes(nodes);
  for (NodeProto &node : nodes) {
    if (node.op_type() == "Resize" && opset <= lastAsymmetricResize) {
      setString(node, "coordinate_transformation_mode", "asymmetric");
      setString(node, "nearest_mode", "floor");
    }
    graph.add_node()->Swap(&node);
  }
}

} // namespace shardonnx
