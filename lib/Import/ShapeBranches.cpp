// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See ShapeBranches.h. What a condition is made of is cut out as a model of its
// own, which the raise folds as it folds all that follows from shapes.

#include "ShapeBranches.h"

#include "ConstantBranches.h"
#include "UnsupportedOps.h"
#include "WireFormat.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <onnx/onnx_pb.h>

using namespace llvm;

namespace shardonnx {
namespace {

/// What conditions of a model are made of.
class Slice {
public:
  Slice(const ::onnx::ModelProto &model, const StrippedModel &stripped)
      : model(model), stripped(stripped) {
    for (int i = 0; i < model.graph().node_size(); ++i)
      for (const std::string &name : model.graph().node(i).output())
        producers[name] = i;
  }

  /// Takes what `value` is made of; false, and nothing more, where that has
  /// control flow of its own.
  bool add(StringRef value);
  /// The model whose outputs are the values taken, in order.
  ::onnx::ModelProto build() const;

private:
  void addInputs(::onnx::GraphProto &graph) const;
  bool isAtHand(int initializer) const;

  const ::onnx::ModelProto &model;
  const StrippedModel &stripped;
  StringMap<int> producers; // nodes, by what they give
  StringSet<> names;        // of all values that are needed
  std::set<int> nodes;
  std::vector<std::string> results;
};

} // namespace

bool Slice::add(StringRef value) {
  std::set<int> found;
  std::vector<std::string> waiting = {value.str()}, seen;
  while (!waiting.empty()) {
    std::string name = std::move(waiting.back());
    waiting.pop_back();
    seen.push_back(name);
    auto producer = producers.find(name);
    if (producer == producers.end() || nodes.count(producer->second) ||
        !found.insert(producer->second).second)
      continue;
    const ::onnx::NodeProto &node = model.graph().node(producer->second);
    if (isControlFlow(node))
      return false;
    waiting.insert(waiting.end(), node.input().begin(), node.input().end());
  }
  nodes.insert(found.begin(), found.end());
  for (const std::string &name : seen)
    names.insert(name);
  results.push_back(value.str());
  return true;
}

bool Slice::isAtHand(int initializer) const {
  const ::onnx::TensorProto &tensor = model.graph().initializer(initializer);
  bool left = size_t(initializer) < stripped.initializers.size() &&
              stripped.initializers[initializer].stripped;
  return !left && tensor.data_location() != ::onnx::TensorProto::EXTERNAL;
}

/// Of a weight that has no bytes here, its shape is all that may count; so it
/// is of one that is an input, too, and may be given another value.
void Slice::addInputs(::onnx::GraphProto &graph) const {
  StringSet<> given, inputs;
  for (const ::onnx::ValueInfoProto &input : model.graph().input())
    inputs.insert(input.name());
  for (int i = 0; i < model.graph().initializer_size(); ++i) {
    const ::onnx::TensorProto &tensor = model.graph().initializer(i);
    if (!names.contains(tensor.name()))
      continue;
    given.insert(tensor.name());
    if (isAtHand(i) && !inputs.contains(tensor.name())) {
      *graph.add_initializer() = tensor;
      continue;
    }
    ::onnx::ValueInfoProto *input = graph.add_input();
    input->set_name(tensor.name());
    auto *type = input->mutable_type()->mutable_tensor_type();
    type->set_elem_type(tensor.data_type());
    type->mutable_shape();
    for (int64_t size : tensor.dims())
      type->mutable_shape()->add_dim()->set_dim_value(size);
  }
  for (const ::onnx::ValueInfoProto &input : model.graph().input())
    if (names.contains(input.name()) && !given.contains(input.name()))
      *graph.add_input() = input;
}

::onnx::ModelProto Slice::build() const {
  ::onnx::ModelProto part;
  part.set_ir_version(model.ir_version());
  *part.mutable_opset_import() = model.opset_import();
  *part.mutable_functions() = model.functions();
  ::onnx::GraphProto &graph = *part.mutable_graph();
  graph.set_name(model.graph().name());
  addInputs(graph);
  for (int node : nodes)
    *graph.add_node() = model.graph().node(node);
  for (const std::string &name : results) {
    ::onnx::ValueInfoProto *output = graph.add_output();
    output->set_name(name);
    output->mutable_type()->mutable_tensor_type()->set_elem_type(
        ::onnx::TensorProto::BOOL);
  }
  return part;
}

/// The shapes of the inputs of a slice.
static StringMap<GivenInput> shapesOf(const ::onnx::GraphProto &graph) {
  StringMap<GivenInput> shapes;
  for (const ::onnx::ValueInfoProto &input : graph.input()) {
    GivenInput &given = shapes[input.name()];
    for (const auto &dim : input.type().tensor_type().shape().dim())
      given.shape.push_back(dim.dim_value());
  }
  return shapes;
}

void takeBranchesByShape(::onnx::ModelProto &model,
                         const StrippedModel &stripped,
                         const ImportOptions::Conditions &conditionsOf) {
  StringSet<> tried;
  while (true) {
    Slice slice(model, stripped);
    std::vector<std::string> conditions;
    for (const ::onnx::NodeProto &node : model.graph().node())
      if (node.op_type() == "If" && node.input_size() == 1 &&
          !tried.contains(node.input(0)) && slice.add(node.input(0))) {
        tried.insert(node.input(0));
        conditions.push_back(node.input(0));
      }
    if (conditions.empty())
      return;
    ::onnx::ModelProto part = slice.build();
    std::vector<std::optional<bool>> found =
        conditionsOf(part.SerializeAsString(), shapesOf(part.graph()));
    StringMap<bool> truths;
    for (auto [name, truth] : llvm::zip(conditions, found))
      if (truth)
        truths[name] = *truth;
    takeKnownBranches(*model.mutable_graph(), truths);
  }
}

} // namespace shardonnx
