// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See NarrowInputs.h.

#include "NarrowInputs.h"

#include "Subgraphs.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include <onnx/onnx_pb.h>
#include <optional>
#include <string>

namespace shardonnx {
namespace {

using ::onnx::TensorProto;

std::optional<int> widened(int type) {
  switch (type) {
  case TensorProto::UINT8:
  case TensorProto::INT8:
  case TensorProto::UINT16:
  case TensorProto::INT16:
    return TensorProto::INT32;
  case TensorProto::UINT32:
    return TensorProto::INT64;
  default:
    return std::nullopt;
  }
}

bool handsOn(llvm::StringRef op) {
  static const llvm::StringSet<> ops = {
      "Identity",  "Reshape", "Transpose", "Slice", "Squeeze",
      "Unsqueeze", "Flatten", "Expand",    "Tile",  "Split"};
  return ops.contains(op);
}

/// The values that have an input's elements, itself the first; nothing if
/// something computes with them as they are.
std::optional<llvm::SetVector<llvm::StringRef>>
valuesOf(const ::onnx::GraphProto &graph, llvm::StringRef input) {
  llvm::SetVector<llvm::StringRef> values;
  values.insert(input);
  for (size_t i = 0; i < values.size(); ++i) {
    llvm::StringRef value = values[i];
    for (const ::onnx::ValueInfoProto &output : graph.output())
      if (output.name() == value)
        return std::nullopt;
    for (const ::onnx::NodeProto &node : graph.node()) {
      llvm::StringRef op = node.op_type();
      for (int place = 0; place < node.input_size(); ++place) {
        if (node.input(place) != value || op == "Cast" || op == "Shape")
          continue;
        if (place != 0 || !node.domain().empty() || !handsOn(op))
          return std::nullopt;
        for (const std::string &output : node.output())
          values.insert(output);
      }
    }
  }
  return values;
}

} // namespace

void widenNarrowInputs(::onnx::GraphProto &graph) {
  if (llvm::any_of(graph.node(), isControlFlow))
    return; // which may read anything
  // Old files list initializers among the inputs.
  llvm::StringSet<> initializers;
  for (const TensorProto &tensor : graph.initializer())
    initializers.insert(tensor.name());
  llvm::StringMap<int> types;
  for (const ::onnx::ValueInfoProto &input : graph.input()) {
    std::optional<int> type = widened(input.type().tensor_type().elem_type());
    if (!type || initializers.contains(input.name()))
      continue;
    if (auto values = valuesOf(graph, input.name()))
      for (llvm::StringRef value : *values)
        types[value] = *type;
  }
  auto retype = [&](::onnx::ValueInfoProto &value) {
    auto found = types.find(value.name());
    if (found != types.end())
      value.mutable_type()->mutable_tensor_type()->set_elem_type(found->second);
  };
  for (::onnx::ValueInfoProto &input : *graph.mutable_input())
    retype(input);
  for (::onnx::ValueInfoProto &value : *graph.mutable_value_info())
    retype(value);
}

} // namespace shardonnx
