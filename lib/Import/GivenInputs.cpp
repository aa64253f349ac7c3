// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The values of `shardonnx eval` know every size: a dimension's name stands for
// one size in all inputs.

#include "GivenInputs.h"

#include "shardonnx/Import/Import.h"
#include "shardonnx/Support/Diagnostics.h"
#include "llvm/ADT/StringSet.h"

#include <onnx/onnx_pb.h>

using namespace mlir;

namespace shardonnx {
namespace {

using Dim = ::onnx::TensorShapeProto::Dimension;

class GivenBinder {
public:
  GivenBinder(::onnx::GraphProto &graph, const ImportOptions &options,
              Diagnostics &diagnostics)
      : graph(graph), options(options), diagnostics(diagnostics) {}

  LogicalResult run() {
    llvm::StringSet<> weights, inputs;
    for (const ::onnx::TensorProto &tensor : graph.initializer())
      weights.insert(tensor.name());
    for (::onnx::ValueInfoProto &input : *graph.mutable_input()) {
      if (weights.contains(input.name()))
        continue;
      inputs.insert(input.name());
      if (failed(bind(input)))
        return failure();
    }
    for (const auto &given : *options.inputs)
      if (!inputs.contains(given.first()))
        return diagnostics.usageError(given.second.source +
                                      " names no input of '" + options.model +
                                      "'; " + listInputs(inputs));
    return success();
  }

private:
  std::string listInputs(const llvm::StringSet<> &inputs) {
    std::string list;
    for (const ::onnx::ValueInfoProto &input : graph.input())
      if (inputs.contains(input.name()))
        list += (list.empty() ? "its inputs are '" : ", '") + input.name() +
                "' " + shapeText(input.type().tensor_type());
    return list.empty() ? "it has none" : list;
  }

  static std::string shapeText(const ::onnx::TypeProto::Tensor &type) {
    std::string text = "[";
    for (const Dim &dim : type.shape().dim()) {
      text += text.size() > 1 ? ", " : "";
      text += dim.has_dim_value()       ? std::to_string(dim.dim_value())
              : dim.dim_param().empty() ? "?"
                                        : dim.dim_param();
    }
    return type.has_shape() ? text + "]" : "of any shape";
  }

  LogicalResult bind(::onnx::ValueInfoProto &input) {
    auto found = options.inputs->find(input.name());
    if (found == options.inputs->end())
      return diagnostics.usageError(
          "'" + options.model + "': input '" + input.name() +
          "' has no value: give --input " + input.name() + "=FILE.npy");
    if (!input.type().has_tensor_type())
      return success(); // what it is, the import refuses by name
    auto &type = *input.mutable_type()->mutable_tensor_type();
    const GivenInput &given = found->second;
    if (!type.has_shape())
      for (size_t i = 0; i < given.shape.size(); ++i)
        type.mutable_shape()->add_dim();
    bool fits = type.shape().dim_size() == static_cast<int>(given.shape.size());
    std::string declared = shapeText(type);
    for (int axis = 0; fits && axis < type.shape().dim_size(); ++axis)
      fits = bindAxis(*type.mutable_shape()->mutable_dim(axis),
                      given.shape[static_cast<size_t>(axis)]);
    if (fits)
      return success();
    std::string shape;
    for (int64_t size : given.shape)
      shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    return diagnostics.error(given.source + " has shape [" + shape +
                             "], but input '" + input.name() + "' of '" +
                             options.model + "' is " + declared + boundNames());
  }

  bool bindAxis(Dim &dim, int64_t size) {
    if (dim.has_dim_value() && dim.dim_value() >= 0)
      return dim.dim_value() == size;
    bool same = true;
    if (!dim.dim_param().empty())
      same = bound.try_emplace(dim.dim_param(), size).first->second == size;
    dim.set_dim_value(size);
    return same;
  }

  std::string boundNames() {
    std::string text;
    for (const auto &entry : bound)
      text += (text.empty() ? ", where " : ", ") + entry.first().str() + " = " +
              std::to_string(entry.second);
    return text;
  }

  ::onnx::GraphProto &graph;
  const ImportOptions &options;
  Diagnostics &diagnostics;
  llvm::StringMap<int64_t> bound;
};

} // namespace

LogicalResult bindGivenInputs(::onnx::GraphProto &graph,
                              const ImportOptions &options,
                              Diagnostics &diagnostics) {
  return GivenBinder(graph, options, diagnostics).run();
}

} // namespace shardonnx
