// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inputs of a node that the standard gives one type. Shape inference only
// compares them where it also compares them with the types that a schema lists,
// which PyTorch's exporter goes beyond (bf16); so this does not. Floats may be
// of different widths, as autocast leaves them: they are widened.

#include "OnnxLibrary.h"

#include <map>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>
#include <string>

namespace shardonnx::onnxlib {
namespace {

using Type = ::onnx::TensorProto::DataType;

bool isFloat(int type) {
  return type == Type::TensorProto_DataType_FLOAT ||
         type == Type::TensorProto_DataType_DOUBLE ||
         type == Type::TensorProto_DataType_FLOAT16 ||
         type == Type::TensorProto_DataType_BFLOAT16;
}

std::string nameOf(int type) {
  return llvm::StringRef(
             ::onnx::TensorProto::DataType_Name(static_cast<Type>(type)))
      .lower();
}

class OperandTypes {
public:
  explicit OperandTypes(const ::onnx::ModelProto &model)
      : graph(model.graph()) {
    for (const auto &import : model.opset_import())
      versions[import.domain()] = static_cast<int>(import.version());
    for (const auto *infos :
         {&graph.input(), &graph.value_info(), &graph.output()})
      for (const ::onnx::ValueInfoProto &info : *infos)
        if (info.type().has_tensor_type())
          types[info.name()] = info.type().tensor_type().elem_type();
    for (const ::onnx::TensorProto &tensor : graph.initializer())
      types[tensor.name()] = tensor.data_type();
  }

  llvm::Error check() const {
    for (const ::onnx::NodeProto &node : graph.node())
      if (llvm::Error error = check(node))
        return error;
    return llvm::Error::success();
  }

private:
  llvm::Error check(const ::onnx::NodeProto &node) const;

  const ::onnx::GraphProto &graph;
  std::map<std::string, int> versions, types;
};

llvm::Error OperandTypes::check(const ::onnx::NodeProto &node) const {
  auto version = versions.find(node.domain());
  if (version == versions.end())
    return llvm::Error::success();
  const ::onnx::OpSchema *schema = ::onnx::OpSchemaRegistry::Schema(
      node.op_type(), version->second, node.domain());
  if (!schema || schema->inputs().empty())
    return llvm::Error::success();
  // The first input of each type variable.
  std::map<std::string, const std::string *> first;
  size_t last = schema->inputs().size() - 1;
  for (int i = 0; i < node.input_size(); ++i) {
    const auto &formal = schema->inputs()[std::min<size_t>(i, last)];
    auto type = types.find(node.input(i));
    if (type == types.end() || !formal.GetIsHomogeneous())
      continue;
    auto [other, isNew] =
        first.try_emplace(formal.GetTypeStr(), &node.input(i));
    int before = types.at(*other->second);
    if (isNew || before == type->second ||
        (isFloat(before) && isFloat(type->second)))
      continue;
    return llvm::createStringError(
        "node '" + (node.name().empty() ? node.output(0) : node.name()) +
        "' (" + node.op_type() + "): inputs '" + *other->second + "' and '" +
        node.input(i) + "' are to be of one type, but one is " +
        nameOf(before) + ", the other " + nameOf(type->second));
  }
  return llvm::Error::success();
}

} // namespace

llvm::Error checkOperandTypes(const ::onnx::ModelProto &model) {
  return OperandTypes(model).check();
}

} // namespace shardonnx::onnxlib
