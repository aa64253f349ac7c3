// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Strings, sequences, optionals and narrow floats are refused here, by the name
// of the op that wants them, before the checker or shape inference stumbles
// over what they leave out.

#include "Interface.h"

#include "OnnxLibrary.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include <onnx/onnx_pb.h>

namespace shardonnx {
namespace {

/// The name of a type that is not supported; empty for one that is, or that
/// shape inference has yet to find.
std::string unsupportedType(const ::onnx::TypeProto &type) {
  using Type = ::onnx::TypeProto;
  switch (type.value_case()) {
  case Type::VALUE_NOT_SET:
    return "";
  case Type::kTensorType:
    break;
  case Type::kSequenceType:
    return "a sequence";
  case Type::kOptionalType:
    return "an optional";
  case Type::kMapType:
    return "a map";
  case Type::kSparseTensorType:
    return "a sparse tensor";
  default:
    return "an opaque value";
  }
  using Tensor = ::onnx::TensorProto;
  int element = type.tensor_type().elem_type();
  if (!Tensor::DataType_IsValid(element))
    return "elements of type " + std::to_string(element);
  switch (element) {
  case Tensor::FLOAT:
  case Tensor::UINT8:
  case Tensor::INT8:
  case Tensor::UINT16:
  case Tensor::INT16:
  case Tensor::INT32:
  case Tensor::INT64:
  case Tensor::BOOL:
  case Tensor::FLOAT16:
  case Tensor::DOUBLE:
  case Tensor::UINT32:
  case Tensor::UINT64:
  case Tensor::BFLOAT16:
    return "";
  default:
    return llvm::StringRef(Tensor::DataType_Name(Tensor::DataType(element)))
        .lower();
  }
}

bool hasShape(const ::onnx::ValueInfoProto &info) {
  return !info.type().has_tensor_type()
             ? info.type().value_case() != ::onnx::TypeProto::VALUE_NOT_SET
             : info.type().tensor_type().has_shape();
}

/// The op of the first node that names a value; empty without one.
template <typename Names>
std::string findOp(const ::onnx::GraphProto &graph, const std::string &value,
                   Names namesOf) {
  for (const ::onnx::NodeProto &node : graph.node())
    if (llvm::is_contained(namesOf(node), value))
      return node.op_type();
  return "";
}

} // namespace

std::string listUnsupportedTypes(const ::onnx::GraphProto &graph) {
  std::string list;
  auto add = [&](llvm::StringRef kind, const ::onnx::ValueInfoProto &info,
                 auto namesOf) {
    std::string type = unsupportedType(info.type());
    if (type.empty())
      return;
    std::string op = findOp(graph, info.name(), namesOf);
    list += (list.empty() ? "" : ", ") + kind.str() + " '" + info.name() + "'" +
            (op.empty() ? "" : " of " + op) + " (" + type + ")";
  };
  for (const ::onnx::ValueInfoProto &input : graph.input())
    add("input", input,
        [](const ::onnx::NodeProto &node) -> auto & { return node.input(); });
  for (const ::onnx::TensorProto &tensor : graph.initializer()) {
    ::onnx::ValueInfoProto info;
    info.set_name(tensor.name());
    info.mutable_type()->mutable_tensor_type()->set_elem_type(
        tensor.data_type());
    add("initializer", info,
        [](const ::onnx::NodeProto &node) -> auto & { return node.input(); });
  }
  for (const ::onnx::ValueInfoProto &output : graph.output())
    add("output", output,
        [](const ::onnx::NodeProto &node) -> auto & { return node.output(); });
  return list;
}

std::string listShapeless(const ::onnx::GraphProto &graph) {
  llvm::StringSet<> known;
  for (const ::onnx::TensorProto &tensor : graph.initializer())
    known.insert(tensor.name());
  std::string list;
  for (const ::onnx::ValueInfoProto &input : graph.input())
    if (!hasShape(input) && !known.contains(input.name()))
      list += (list.empty() ? "'" : ", '") + input.name() + "'";
  return list;
}

void completeOutputs(::onnx::ModelProto &model) {
  ::onnx::GraphProto &graph = *model.mutable_graph();
  auto isTyped = [](const ::onnx::ValueInfoProto &info) {
    return info.type().value_case() != ::onnx::TypeProto::VALUE_NOT_SET;
  };
  if (llvm::all_of(graph.output(), isTyped))
    return;
  ::onnx::ModelProto typed = model;
  llvm::consumeError(onnxlib::inferShapes(typed));
  llvm::StringMap<const ::onnx::TypeProto *> types;
  for (const auto *infos : {&typed.graph().value_info(), &typed.graph().input(),
                            &typed.graph().output()})
    for (const ::onnx::ValueInfoProto &info : *infos)
      if (hasShape(info))
        types[info.name()] = &info.type();
  ::onnx::GraphProto weights; // an output may be one
  for (const ::onnx::TensorProto &tensor : graph.initializer()) {
    ::onnx::TypeProto &type = *weights.add_input()->mutable_type();
    type.mutable_tensor_type()->set_elem_type(tensor.data_type());
    auto *shape = type.mutable_tensor_type()->mutable_shape();
    for (int64_t size : tensor.dims())
      shape->add_dim()->set_dim_value(size);
    types[tensor.name()] = &type;
  }
  for (::onnx::ValueInfoProto &output : *graph.mutable_output())
    if (const ::onnx::TypeProto *type = types.lookup(output.name());
        type && !isTyped(output))
      *output.mutable_type() = *type;
}

} // namespace shardonnx
