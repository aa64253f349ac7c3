// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Subgraphs.h.

#include "Subgraphs.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <onnx/onnx_pb.h>

using namespace llvm;

namespace shardonnx {

const ::onnx::AttributeProto *findAttribute(const ::onnx::NodeProto &node,
                                            StringRef name) {
  auto found = find_if(node.attribute(), [&](const auto &attribute) {
    return attribute.name() == name;
  });
  return found == node.attribute().end() ? nullptr : &*found;
}

int64_t intAttribute(const ::onnx::NodeProto &node, StringRef name,
                     int64_t otherwise) {
  const ::onnx::AttributeProto *attribute = findAttribute(node, name);
  return attribute ? attribute->i() : otherwise;
}

bool isFloat(int dataType) {
  return dataType == ::onnx::TensorProto::FLOAT ||
         dataType == ::onnx::TensorProto::DOUBLE ||
         dataType == ::onnx::TensorProto::FLOAT16 ||
         dataType == ::onnx::TensorProto::BFLOAT16;
}

static ::onnx::AttributeProto &
addAttribute(::onnx::NodeProto &node, StringRef name,
             ::onnx::AttributeProto::AttributeType type) {
  ::onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name.str());
  attribute.set_type(type);
  return attribute;
}

void addAttribute(::onnx::NodeProto &node, StringRef name, int64_t value) {
  addAttribute(node, name, ::onnx::AttributeProto::INT).set_i(value);
}

void addAttribute(::onnx::NodeProto &node, StringRef name, StringRef value) {
  addAttribute(node, name, ::onnx::AttributeProto::STRING).set_s(value.str());
}

void addAttribute(::onnx::NodeProto &node, StringRef name,
                  ArrayRef<int64_t> values) {
  ::onnx::AttributeProto &attribute =
      addAttribute(node, name, ::onnx::AttributeProto::INTS);
  for (int64_t value : values)
    attribute.add_ints(value);
}

void addAttribute(::onnx::NodeProto &node, StringRef name,
                  ::onnx::TensorProto value) {
  *addAttribute(node, name, ::onnx::AttributeProto::TENSOR).mutable_t() =
      std::move(value);
}

::onnx::TensorProto asTensor(ArrayRef<int64_t> numbers) {
  ::onnx::TensorProto tensor;
  tensor.set_data_type(::onnx::TensorProto::INT64);
  tensor.add_dims(static_cast<int64_t>(numbers.size()));
  for (int64_t number : numbers)
    tensor.add_int64_data(number);
  return tensor;
}

::onnx::NodeProto &appendNode(::onnx::GraphProto &graph, StringRef op,
                              ArrayRef<std::string> inputs,
                              ArrayRef<std::string> outputs, StringRef name) {
  ::onnx::NodeProto &node = *graph.add_node();
  node.set_op_type(op.str());
  if (!name.empty())
    node.set_name(name.str());
  for (const std::string &input : inputs)
    node.add_input(input);
  for (const std::string &output : outputs)
    node.add_output(output);
  return node;
}

void moveLastNode(::onnx::GraphProto &graph, int position) {
  for (int i = graph.node_size() - 1; i > position; --i)
    graph.mutable_node()->SwapElements(i, i - 1);
}

void makeConstant(::onnx::NodeProto &node, ::onnx::TensorProto value) {
  node.clear_input();
  node.clear_attribute();
  node.set_op_type("Constant");
  addAttribute(node, "value", std::move(value));
}

void addReads(const ::onnx::NodeProto &node, StringSet<> &reads) {
  for (const std::string &input : node.input())
    reads.insert(input);
  for (const ::onnx::AttributeProto &attribute : node.attribute()) {
    for (const ::onnx::NodeProto &inner : attribute.g().node())
      addReads(inner, reads);
    for (const auto &output : attribute.g().output())
      reads.insert(output.name());
  }
}

void dropUnreadNodes(::onnx::GraphProto &graph,
                     function_ref<bool(const ::onnx::NodeProto &)> mayGo) {
  StringSet<> reads;
  for (const auto &output : graph.output())
    reads.insert(output.name());
  std::vector<::onnx::NodeProto> kept;
  for (::onnx::NodeProto &node : reverse(*graph.mutable_node())) {
    bool unread = none_of(node.output(), [&](const std::string &output) {
      return reads.contains(output);
    });
    if (unread && mayGo(node))
      continue;
    addReads(node, reads);
    kept.emplace_back().Swap(&node);
  }
  graph.clear_node();
  for (::onnx::NodeProto &node : reverse(kept))
    graph.add_node()->Swap(&node);
}

bool isControlFlow(const ::onnx::NodeProto &node) {
  return any_of(node.attribute(), [](const ::onnx::AttributeProto &attribute) {
    return attribute.has_g() || attribute.graphs_size() > 0;
  });
}

bool hasNoGradient(const ::onnx::NodeProto &node) {
  static constexpr StringRef ops[] = {
      "ArgMax", "ArgMin", "Shape", "Size",        "Equal", "Greater",
      "Less",   "Not",    "And",   "LessOrEqual", "Or",    "GreaterOrEqual",
      "IsNaN",  "IsInf",  "Xor",   "NonZero"};
  return llvm::is_contained(ops, node.op_type()) ||
         (node.op_type() == "Cast" &&
          llvm::any_of(node.attribute(), [&](const auto &attribute) {
            return attribute.name() == "to" &&
                   !isFloat(static_cast<int>(attribute.i()));
          }));
}

bool mayBeWeight(const ::onnx::TensorProto &tensor) {
  return isFloat(tensor.data_type()) &&
         any_of(tensor.dims(), [](int64_t size) { return size != 1; });
}

bool isOp(const ::onnx::NodeProto &node, StringRef op) {
  return node.op_type() == op &&
         (node.domain().empty() || node.domain() == "ai.onnx");
}

namespace {

using NewNames = StringMap<std::string>;

void rename(std::string &name, const NewNames &newNames) {
  auto found = newNames.find(name);
  if (found != newNames.end())
    name = found->second;
}

/// Subgraphs inside may read what is renamed; what they name as it was named is
/// renamed with it, in all that reads it.
void renameAll(::onnx::NodeProto &node, const NewNames &newNames) {
  for (std::string &name : *node.mutable_input())
    rename(name, newNames);
  for (std::string &name : *node.mutable_output())
    rename(name, newNames);
  for (::onnx::AttributeProto &attribute : *node.mutable_attribute()) {
    if (!attribute.has_g())
      continue;
    ::onnx::GraphProto &inner = *attribute.mutable_g();
    for (::onnx::NodeProto &innerNode : *inner.mutable_node())
      renameAll(innerNode, newNames);
    for (auto &input : *inner.mutable_input())
      rename(*input.mutable_name(), newNames);
    for (auto &output : *inner.mutable_output())
      rename(*output.mutable_name(), newNames);
    for (auto &tensor : *inner.mutable_initializer())
      rename(*tensor.mutable_name(), newNames);
  }
}

/// An initializer of a subgraph, as a node.
::onnx::NodeProto asNode(const ::onnx::TensorProto &tensor) {
  ::onnx::NodeProto node;
  node.set_op_type("Constant");
  node.set_name(tensor.name());
  node.add_output(tensor.name());
  addAttribute(node, "value", tensor);
  return node;
}

} // namespace

SubgraphWriter::SubgraphWriter(const ::onnx::GraphProto &graph) {
  for (const auto &tensor : graph.initializer())
    taken[tensor.name()];
  for (const auto &input : graph.input())
    taken[input.name()];
  for (const auto &node : graph.node())
    for (const std::string &name : node.output())
      taken[name];
}

bool SubgraphWriter::canStandOutside(const ::onnx::GraphProto &subgraph) {
  return subgraph.sparse_initializer_size() == 0 &&
         none_of(subgraph.initializer(), mayBeWeight);
}

std::string SubgraphWriter::newName(StringRef name) {
  auto [wanted, isNew] = taken.try_emplace(name);
  if (isNew)
    return name.str();
  std::string other;
  do
    other = (name + "_" + Twine(++wanted->second)).str();
  while (taken.contains(other));
  taken[other];
  return other;
}

SubgraphWriter::Copy SubgraphWriter::copy(const ::onnx::GraphProto &subgraph,
                                          ArrayRef<std::string> inputs) {
  Copy copy;
  for (const ::onnx::TensorProto &tensor : subgraph.initializer())
    copy.nodes.push_back(asNode(tensor));
  copy.nodes.insert(copy.nodes.end(), subgraph.node().begin(),
                    subgraph.node().end());
  NewNames newNames;
  for (auto [input, name] : zip(subgraph.input(), inputs))
    newNames[input.name()] = name;
  for (const ::onnx::NodeProto &node : copy.nodes)
    for (const std::string &name : node.output())
      if (!name.empty())
        newNames[name] = newName(name);
  for (::onnx::NodeProto &node : copy.nodes)
    renameAll(node, newNames);
  for (const auto &output : subgraph.output())
    rename(copy.results.emplace_back(output.name()), newNames);
  return copy;
}

} // namespace shardonnx
