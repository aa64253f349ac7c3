// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See LocalFunctions.h.

#include "LocalFunctions.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <onnx/onnx_pb.h>

#include <map>
#include <string>
#include <tuple>

namespace shardonnx {
namespace {

using Key = std::tuple<std::string, std::string, std::string>;
using Functions = std::map<Key, const ::onnx::FunctionProto *>;

template <typename Nodes>
void stateDefaults(Nodes &nodes, const Functions &functions);

void stateDefaults(::onnx::NodeProto &node, const Functions &functions) {
  for (::onnx::AttributeProto &attribute : *node.mutable_attribute()) {
    if (attribute.has_g())
      stateDefaults(*attribute.mutable_g()->mutable_node(), functions);
    for (::onnx::GraphProto &graph : *attribute.mutable_graphs())
      stateDefaults(*graph.mutable_node(), functions);
  }
  auto called =
      functions.find({node.domain(), node.op_type(), node.overload()});
  if (called == functions.end())
    return;
  for (const ::onnx::AttributeProto &value : called->second->attribute_proto())
    if (llvm::none_of(node.attribute(), [&](const auto &stated) {
          return stated.name() == value.name();
        }))
      *node.add_attribute() = value;
}

template <typename Nodes>
void stateDefaults(Nodes &nodes, const Functions &functions) {
  for (::onnx::NodeProto &node : nodes)
    stateDefaults(node, functions);
}

void separateOutputs(::onnx::FunctionProto &function) {
  llvm::StringSet<> taken;
  for (const std::string &input : function.input())
    taken.insert(input);
  for (int i = 0; i < function.output_size(); ++i) {
    std::string value = function.output(i);
    if (taken.insert(value).second)
      continue;
    ::onnx::NodeProto &same = *function.add_node();
    same.set_op_type("Identity");
    same.add_input(value);
    same.add_output(value + "_output" + std::to_string(i));
    function.set_output(i, same.output(0));
  }
}

} // namespace

void completeFunctions(::onnx::ModelProto &model) {
  if (model.functions_size() == 0)
    return;
  for (::onnx::FunctionProto &function : *model.mutable_functions())
    separateOutputs(function);
  Functions functions;
  for (const ::onnx::FunctionProto &function : model.functions())
    functions[{function.domain(), function.name(), function.overload()}] =
        &function;
  stateDefaults(*model.mutable_graph()->mutable_node(), functions);
  for (::onnx::FunctionProto &function : *model.mutable_functions())
    stateDefaults(*function.mutable_node(), functions);
}

} // namespace shardonnx
