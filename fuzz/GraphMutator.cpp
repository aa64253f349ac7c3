// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mutations of the graph that leave it a graph: edges lead from values that
// are there, and constants keep as many bytes as their shapes say. What is left
// to refuse is what no exporter means.

#include "../lib/Import/SchemaRegistry.h"
#include "ModelMutator.h"

#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace shardonnx::fuzz {
namespace {

using onnx::AttributeProto;
using onnx::NodeProto;
using onnx::TensorProto;

class GraphMutator {
public:
  GraphMutator(onnx::GraphProto &graph, unsigned seed)
      : random(seed), graph(graph) {}

  void run();

private:
  size_t pick(size_t count) { return random() % count; }
  NodeProto &anyNode() {
    return *graph.mutable_node(static_cast<int>(pick(graph.node_size())));
  }
  int64_t near(int64_t value);
  void changeAttribute(AttributeProto &attribute);
  void changeNodeAttribute();
  void dropAttribute();
  void rewire();
  void changeInputs();
  void changeOp();
  void removeNode();
  void changeInputShape();
  void changeInputType();
  void changeConstant();
  void changeConstantShape();
  void changeOutput();
  std::string anyValue();

  std::mt19937 random;
  onnx::GraphProto &graph;
};

/// A number like this one, or one at which arithmetic breaks.
int64_t GraphMutator::near(int64_t value) {
  static constexpr int64_t edges[] = {0,
                                      1,
                                      -1,
                                      -2,
                                      2,
                                      3,
                                      7,
                                      64,
                                      INT32_MAX,
                                      int64_t(1) << 33,
                                      int64_t(1) << 62,
                                      INT64_MAX,
                                      INT64_MIN};
  uint64_t bits = static_cast<uint64_t>(value); // wraps around
  switch (pick(6)) {
  case 0:
    return static_cast<int64_t>(bits + 1);
  case 1:
    return static_cast<int64_t>(bits - 1);
  case 2:
    return static_cast<int64_t>(0 - bits);
  case 3:
    return static_cast<int64_t>(bits * 2);
  default:
    return edges[pick(std::size(edges))];
  }
}

void GraphMutator::changeAttribute(AttributeProto &attribute) {
  static constexpr float reals[] = {0,     -0.0F, 1,     -1,    0.5F,
                                    1e-5F, 3,     1e38F, -1e38F};
  switch (attribute.type()) {
  case AttributeProto::INT:
    return attribute.set_i(near(attribute.i()));
  case AttributeProto::FLOAT:
    return attribute.set_f(reals[pick(std::size(reals))]);
  case AttributeProto::INTS: {
    int size = attribute.ints_size();
    if (size == 0 || pick(4) == 0)
      return attribute.add_ints(near(0));
    int index = static_cast<int>(pick(static_cast<size_t>(size)));
    if (pick(4) == 0)
      return attribute.mutable_ints()->RemoveLast();
    if (pick(4) == 0)
      return attribute.mutable_ints()->SwapElements(index, size - 1);
    return attribute.set_ints(index, near(attribute.ints(index)));
  }
  case AttributeProto::STRING: {
    static const char *const words[] = {
        "",     "max",    "mean",    "none",      "sum",  "reflect",
        "edge", "linear", "nearest", "VALID",     "tanh", "add",
        "mul",  "cubic",  "ij,jk",   "SAME_UPPER"};
    return attribute.set_s(words[pick(std::size(words))]);
  }
  default:
    return;
  }
}

void GraphMutator::changeNodeAttribute() {
  NodeProto &node = anyNode();
  // Attributes that are not stated have defaults, and are of interest too.
  static const char *const numbers[] = {"axis",
                                        "keepdims",
                                        "transA",
                                        "transB",
                                        "group",
                                        "to",
                                        "q_num_heads",
                                        "batch_dims",
                                        "kv_num_heads",
                                        "upper",
                                        "is_causal",
                                        "stash_type",
                                        "ceil_mode",
                                        "hidden_size",
                                        "largest",
                                        "exclusive",
                                        "num_groups",
                                        "block_size",
                                        "allowzero",
                                        "num_outputs",
                                        "p",
                                        "qk_matmul_output_mode"};
  if (node.attribute_size() == 0 || pick(4) == 0) {
    AttributeProto &added = *node.add_attribute();
    added.set_name(numbers[pick(std::size(numbers))]);
    added.set_type(AttributeProto::INT);
    return added.set_i(near(0));
  }
  changeAttribute(*node.mutable_attribute(
      static_cast<int>(pick(static_cast<size_t>(node.attribute_size())))));
}

void GraphMutator::dropAttribute() {
  NodeProto &node = anyNode();
  if (node.attribute_size() > 0)
    node.mutable_attribute()->RemoveLast();
}

/// The name of a graph input, constant or result.
std::string GraphMutator::anyValue() {
  switch (pick(4)) {
  case 0:
    if (graph.initializer_size() > 0)
      return graph
          .initializer(static_cast<int>(
              pick(static_cast<size_t>(graph.initializer_size()))))
          .name();
    break;
  case 1:
    if (graph.input_size() > 0)
      return graph
          .input(
              static_cast<int>(pick(static_cast<size_t>(graph.input_size()))))
          .name();
    break;
  default:
    break;
  }
  const NodeProto &node = anyNode();
  return node.output_size() ? node.output(0) : std::string();
}

/// An input becomes a value that was there before: no circle.
void GraphMutator::rewire() {
  int at = static_cast<int>(pick(static_cast<size_t>(graph.node_size())));
  NodeProto &node = *graph.mutable_node(at);
  if (node.input_size() == 0)
    return;
  int index = static_cast<int>(pick(static_cast<size_t>(node.input_size())));
  if (at > 0 && pick(3)) {
    // Mostly from near by, where shapes often fit.
    int reach = std::min(at, pick(2) ? 6 : at);
    const NodeProto &from =
        graph.node(at - 1 - static_cast<int>(pick(static_cast<size_t>(reach))));
    if (from.output_size() > 0)
      return node.set_input(
          index, from.output(static_cast<int>(
                     pick(static_cast<size_t>(from.output_size())))));
  }
  if (node.input_size() > 1 && pick(2))
    return node.mutable_input()->SwapElements(
        index, static_cast<int>(pick(static_cast<size_t>(node.input_size()))));
  node.set_input(
      index, graph.initializer_size() && pick(2)
                 ? graph
                       .initializer(static_cast<int>(
                           pick(static_cast<size_t>(graph.initializer_size()))))
                       .name()
                 : node.input(0));
}

void GraphMutator::changeInputs() {
  NodeProto &node = anyNode();
  if (node.input_size() == 0)
    return;
  switch (pick(3)) {
  case 0: // absent
    return node.set_input(
        static_cast<int>(pick(static_cast<size_t>(node.input_size()))), "");
  case 1:
    return node.mutable_input()->RemoveLast();
  default:
    return node.add_input(node.input(
        static_cast<int>(pick(static_cast<size_t>(node.input_size())))));
  }
}

void GraphMutator::changeOp() {
  // Those of a row take the same operands, more or less.
  static const std::vector<std::vector<std::string>> families = {
      {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mod", "PRelu", "Equal",
       "Less", "Greater", "And", "Or", "MatMul", "Gather", "BitShift"},
      {"Relu",       "Tanh",  "Erf",       "Exp",        "Log",
       "Sqrt",       "Neg",   "Abs",       "Sigmoid",    "Softmax",
       "LogSoftmax", "Gelu",  "HardSwish", "Softplus",   "Identity",
       "Not",        "Cast",  "Shape",     "Size",       "NonZero",
       "Floor",      "Round", "Sign",      "Transpose",  "Flatten",
       "Squeeze",    "Trilu", "IsNaN",     "Reciprocal", "GlobalAveragePool",
       "Dropout",    "Det",   "Hardmax",   "Mish",       "Elu"},
      {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd",
       "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ArgMax", "CumSum"},
      {"Reshape", "Expand", "Tile", "Unsqueeze", "Squeeze", "Gather", "Split",
       "Slice", "GatherElements", "GatherND", "TopK", "OneHot",
       "ConstantOfShape"},
      {"Where", "Clip", "Gemm", "LayerNormalization", "ScatterElements",
       "ScatterND", "Conv", "Range", "Concat", "Attention", "RMSNormalization",
       "Sum", "Mean", "InstanceNormalization", "GroupNormalization"}};
  NodeProto &node = anyNode();
  for (const auto &family : families)
    if (std::find(family.begin(), family.end(), node.op_type()) !=
        family.end()) {
      const auto &other = pick(4) ? family : families[pick(families.size())];
      return node.set_op_type(other[pick(other.size())]);
    }
  const auto &other = families[pick(families.size())];
  node.set_op_type(other[pick(other.size())]);
}

/// What read its result reads one of its operands.
void GraphMutator::removeNode() {
  int at = static_cast<int>(pick(static_cast<size_t>(graph.node_size())));
  NodeProto node = graph.node(at);
  if (node.input_size() == 0 || node.output_size() == 0 ||
      node.input(0).empty())
    return;
  for (NodeProto &user : *graph.mutable_node())
    for (std::string &input : *user.mutable_input())
      if (input == node.output(0))
        input = node.input(0);
  for (auto &output : *graph.mutable_output())
    if (output.name() == node.output(0))
      output.set_name(node.input(0));
  graph.mutable_node()->DeleteSubrange(at, 1);
}

void GraphMutator::changeInputShape() {
  if (graph.input_size() == 0)
    return;
  auto &shape = *graph
                     .mutable_input(static_cast<int>(
                         pick(static_cast<size_t>(graph.input_size()))))
                     ->mutable_type()
                     ->mutable_tensor_type()
                     ->mutable_shape();
  if (shape.dim_size() == 0 || pick(6) == 0)
    return shape.add_dim()->set_dim_value(1 + static_cast<int64_t>(pick(3)));
  if (pick(6) == 0)
    return shape.mutable_dim()->RemoveLast();
  auto &dim = *shape.mutable_dim(
      static_cast<int>(pick(static_cast<size_t>(shape.dim_size()))));
  static constexpr int64_t sizes[] = {0, 1, 2, 3, 5, 7, 17, 1 << 20};
  dim.set_dim_value(pick(2) && dim.has_dim_value() ? near(dim.dim_value())
                                                   : sizes[pick(8)]);
}

void GraphMutator::changeInputType() {
  if (graph.input_size() == 0)
    return;
  static constexpr int types[] = {TensorProto::FLOAT,   TensorProto::INT64,
                                  TensorProto::INT32,   TensorProto::BOOL,
                                  TensorProto::FLOAT16, TensorProto::BFLOAT16,
                                  TensorProto::DOUBLE,  TensorProto::UINT8};
  graph
      .mutable_input(
          static_cast<int>(pick(static_cast<size_t>(graph.input_size()))))
      ->mutable_type()
      ->mutable_tensor_type()
      ->set_elem_type(types[pick(std::size(types))]);
}

/// One element of a list of integers: axes, sizes, indices.
void GraphMutator::changeConstant() {
  std::vector<TensorProto *> lists;
  auto collect = [&](TensorProto &tensor) {
    if (tensor.data_type() == TensorProto::INT64)
      lists.push_back(&tensor);
  };
  for (TensorProto &tensor : *graph.mutable_initializer())
    collect(tensor);
  for (NodeProto &node : *graph.mutable_node())
    for (AttributeProto &attribute : *node.mutable_attribute())
      if (attribute.has_t())
        collect(*attribute.mutable_t());
  if (lists.empty())
    return;
  TensorProto &tensor = *lists[pick(lists.size())];
  if (tensor.int64_data_size() > 0) {
    int index =
        static_cast<int>(pick(static_cast<size_t>(tensor.int64_data_size())));
    return tensor.set_int64_data(index, near(tensor.int64_data(index)));
  }
  std::string &raw = *tensor.mutable_raw_data();
  if (raw.size() < sizeof(int64_t))
    return;
  char *at = raw.data() + sizeof(int64_t) * pick(raw.size() / sizeof(int64_t));
  int64_t value = 0;
  std::memcpy(&value, at, sizeof(value));
  value = near(value);
  std::memcpy(at, &value, sizeof(value));
}

/// As many elements in another shape.
void GraphMutator::changeConstantShape() {
  if (graph.initializer_size() == 0)
    return;
  TensorProto &tensor = *graph.mutable_initializer(
      static_cast<int>(pick(static_cast<size_t>(graph.initializer_size()))));
  auto &dims = *tensor.mutable_dims();
  switch (pick(4)) {
  case 0:
    return dims.Add(1);
  case 1:
    if (dims.size() > 1)
      return dims.SwapElements(0, dims.size() - 1);
    return;
  case 2: {
    uint64_t count = 1; // sizes of a mutant may have no product
    for (int64_t size : dims)
      count *= static_cast<uint64_t>(size);
    dims.Clear();
    return dims.Add(static_cast<int64_t>(count));
  }
  default:
    if (dims.empty())
      return dims.Add(1);
    int64_t last = dims.Get(dims.size() - 1);
    if (last % 2 != 0)
      return;
    dims.Set(dims.size() - 1, last / 2);
    return dims.Add(2);
  }
}

/// Another value is what the graph computes, or one more.
void GraphMutator::changeOutput() {
  std::string name = anyValue();
  if (name.empty() || graph.output_size() == 0)
    return;
  int index = static_cast<int>(pick(static_cast<size_t>(graph.output_size())));
  auto *output = pick(2) ? graph.mutable_output(index) : graph.add_output();
  output->set_name(name);
}

void GraphMutator::run() {
  if (graph.node_size() == 0)
    return;
  static constexpr void (GraphMutator::*mutations[])() = {
      &GraphMutator::changeNodeAttribute,
      &GraphMutator::changeNodeAttribute,
      &GraphMutator::dropAttribute,
      &GraphMutator::rewire,
      &GraphMutator::rewire,
      &GraphMutator::changeInputs,
      &GraphMutator::changeOp,
      &GraphMutator::changeOp,
      &GraphMutator::removeNode,
      &GraphMutator::changeInputShape,
      &GraphMutator::changeInputType,
      &GraphMutator::changeConstant,
      &GraphMutator::changeConstant,
      &GraphMutator::changeConstantShape,
      &GraphMutator::changeOutput};
  (this->*mutations[pick(std::size(mutations))])();
}

} // namespace

void inferTypes(onnx::ModelProto &model) {
  onnx::GraphProto &graph = *model.mutable_graph();
  graph.clear_value_info();
  for (auto &output : *graph.mutable_output())
    output.clear_type();
  onnxlib::SchemaRegistry registry;
  try {
    onnx::shape_inference::InferShapes(model, &registry);
  } catch (const std::exception &) { // the import will say it
  }
  graph.clear_value_info();
}

void mutateGraph(onnx::ModelProto &model, unsigned seed) {
  GraphMutator(*model.mutable_graph(), seed).run();
  inferTypes(model);
}

} // namespace shardonnx::fuzz
