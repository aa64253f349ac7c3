// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See OldOpsets.h. The converter of ONNX 1.23 takes Hardmax of opset 12 for
// that of 13, and Resize of opset 10 (as which Upsample comes, too) for that of
// 11, whose coordinates are others; a Pad's sizes become an initializer; a
// softmax of an empty tensor loses its shape.

#include "OldOpsets.h"

#include "NodeWriter.h"

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

/// Hardmax of a matrix whose rows are the axes from `axis` on.
void writeOutHardmax(NodeWriter &writer, const NodeProto &node) {
  const AttributeProto *axis = findAttribute(node, "axis");
  const std::string &x = node.input(0), &y = node.output(0);
  std::string shape = writer.names.newName(y + "_shape");
  std::string rows = writer.names.newName(y + "_rows");
  std::string hardmax = writer.names.newName(y + "_hardmax");
  writer.add("Shape", {x}, {shape});
  addAttribute(writer.add("Flatten", {x}, {rows}), "axis",
               axis ? axis->i() : int64_t(1));
  addAttribute(writer.add("Hardmax", {rows}, {hardmax}), "axis", int64_t(-1));
  writer.add("Reshape", {hardmax, shape}, {y});
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
    if (restoresShape(node, producers)) // else zero means another length
      addAttribute(node, "allowzero", int64_t(1));
}

/// Of the initializers that are not known.
void makeConstants(::onnx::GraphProto &graph, const llvm::StringSet<> &known) {
  auto &tensors = *graph.mutable_initializer();
  auto made = std::stable_partition(
      tensors.begin(), tensors.end(),
      [&](const auto &tensor) { return known.contains(tensor.name()); });
  for (auto it = made; it != tensors.end(); ++it) {
    NodeProto &node = appendNode(graph, "Constant", {}, {it->name()});
    addAttribute(node, "value", std::move(*it));
  }
  tensors.erase(made, tensors.end());
}

} // namespace

void writeOutOldOps(::onnx::GraphProto &graph, int opset) {
  if (opset > lastHardmaxOfMatrix)
    return;
  NodeWriter writer(graph, opset);
  Nodes nodes;
  nodes.Swap(graph.mutable_node());
  for (NodeProto &node : nodes) {
    writer.standFor(node);
    bool whole = node.input_size() == 1 && node.output_size() == 1;
    if (isOp(node, "Hardmax") && whole)
      writeOutHardmax(writer, node);
    else
      writer.keep(node);
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
      addAttribute(node, "coordinate_transformation_mode", "asymmetric");
      addAttribute(node, "nearest_mode", "floor");
    }
    graph.add_node()->Swap(&node);
  }
}

} // namespace shardonnx
