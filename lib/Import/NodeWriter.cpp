// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See NodeWriter.h.

#include "NodeWriter.h"

using namespace llvm;

namespace shardonnx {

/// What the copies of a body may come to in the file's format.
static constexpr int64_t kMostBytes = int64_t(1) << 26;

/// Since which sizes and axes are inputs.
static constexpr int kNumbersAreInputs = 13;

::onnx::NodeProto &NodeWriter::add(StringRef op, ArrayRef<std::string> inputs,
                                   ArrayRef<std::string> outputs) {
  ::onnx::NodeProto &node =
      appendNode(graph, op, inputs, outputs, instead->name());
  *node.mutable_metadata_props() = instead->metadata_props();
  return node;
}

std::string NodeWriter::addConstant(const ::onnx::TensorProto &value,
                                    StringRef name) {
  std::string result = names.newName(name);
  addAttribute(add("Constant", {}, {result}), "value", value);
  return result;
}

/// Nothing where they are an attribute.
std::string NodeWriter::constantOf(ArrayRef<int64_t> numbers, StringRef name) {
  if (opset < kNumbersAreInputs)
    return "";
  return addConstant(asTensor(numbers), name);
}

void NodeWriter::setNumbers(::onnx::NodeProto &node, ArrayRef<int64_t> numbers,
                            StringRef attribute, const std::string &input) {
  if (opset >= kNumbersAreInputs) {
    node.add_input(input);
    return;
  }
  addAttribute(node, attribute, numbers);
}

std::string NodeWriter::changeAxis(StringRef op, const std::string &of,
                                   int64_t axis) {
  std::string axes = constantOf({axis}, of + "_axis");
  std::string result = names.newName(of + "_" + op.lower());
  setNumbers(add(op, {of}, {result}), {axis}, "axes", axes);
  return result;
}

void NodeWriter::split(const std::string &whole, ArrayRef<std::string> parts,
                       int64_t axis) {
  std::vector<int64_t> ones(parts.size(), 1);
  std::string sizes = constantOf(ones, whole + "_sizes");
  ::onnx::NodeProto &node = add("Split", {whole}, parts);
  setNumbers(node, ones, "split", sizes);
  addAttribute(node, "axis", axis);
}

void NodeWriter::concat(ArrayRef<std::string> parts, const std::string &whole,
                        int64_t axis) {
  addAttribute(add("Concat", parts, {whole}), "axis", axis);
}

bool NodeWriter::hasRoomFor(const ::onnx::GraphProto &body, int64_t copies,
                            int64_t others) const {
  int64_t room = kMostNodes - graph.node_size();
  return copies <= room / (body.node_size() + others + 1) &&
         copies <= kMostBytes / (int64_t(body.ByteSizeLong()) + 1);
}

std::vector<std::string> NodeWriter::copy(const ::onnx::GraphProto &body,
                                          ArrayRef<std::string> inputs) {
  SubgraphWriter::Copy copied = names.copy(body, inputs);
  for (::onnx::NodeProto &node : copied.nodes)
    keep(node);
  return std::move(copied.results);
}

void NodeWriter::keep(::onnx::NodeProto &node) {
  graph.add_node()->Swap(&node);
}

} // namespace shardonnx
