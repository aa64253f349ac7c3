// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See KnownTensors.h.

#include "KnownTensors.h"

#include "Subgraphs.h"

#include "llvm/ADT/STLExtras.h"

#include <onnx/defs/tensor_proto_util.h>
#include <onnx/onnx_pb.h>

#include <optional>

using namespace llvm;

namespace shardonnx {
namespace {

/// Longer lists are no shapes, axes or places.
constexpr int kMostInts = 64;

using Shape = std::vector<int64_t>;

std::optional<Shape> readInts(const ::onnx::TensorProto &tensor) {
  int64_t count = 1;
  for (int64_t size : tensor.dims())
    count *= size >= 0 && size <= kMostInts ? size : kMostInts + 1;
  if (tensor.data_type() != ::onnx::TensorProto::INT64 || count > kMostInts ||
      tensor.dims_size() > 1 ||
      tensor.data_location() == ::onnx::TensorProto::EXTERNAL ||
      (tensor.int64_data_size() != count &&
       tensor.raw_data().size() != size_t(count) * sizeof(int64_t)))
    return std::nullopt;
  return ::onnx::ParseData<int64_t>(&tensor);
}

std::optional<Shape> readConstant(const ::onnx::NodeProto &node) {
  if (const auto *value = findAttribute(node, "value"))
    return readInts(value->t());
  if (const auto *value = findAttribute(node, "value_int"))
    return Shape{value->i()};
  if (const auto *value = findAttribute(node, "value_ints"))
    return Shape(value->ints().begin(), value->ints().end());
  return std::nullopt;
}

} // namespace

bool isZeroTensor(const ::onnx::TensorProto &tensor) {
  return tensor.data_location() != ::onnx::TensorProto::EXTERNAL &&
         (tensor.raw_data().empty() != tensor.float_data().empty()) &&
         all_of(tensor.raw_data(), [](char byte) { return byte == 0; }) &&
         all_of(tensor.float_data(), [](float item) { return item == 0; });
}

KnownTensors::KnownTensors(const ::onnx::GraphProto &graph) {
  auto add = [&](const ::onnx::ValueInfoProto &value) {
    const auto &type = value.type().tensor_type();
    types[value.name()] = type.elem_type();
    Shape shape;
    for (const auto &dim : type.shape().dim()) {
      if (!dim.has_dim_value())
        return;
      shape.push_back(dim.dim_value());
    }
    if (type.has_shape())
      shapes[value.name()] = shape;
  };
  for (const auto &value : graph.value_info())
    add(value);
  for (const auto &value : graph.input()) {
    add(value);
    inputs.insert(value.name());
  }
  for (const auto &value : graph.output())
    add(value);
  for (const auto &tensor : graph.initializer()) {
    types[tensor.name()] = tensor.data_type();
    shapes[tensor.name()] = Shape(tensor.dims().begin(), tensor.dims().end());
    if (auto list = readInts(tensor)) {
      ints[tensor.name()] = *list;
      if (tensor.dims().empty())
        numbers.insert(tensor.name());
    }
    if (isZeroTensor(tensor))
      zeros.insert(tensor.name());
  }
  for (const auto &node : graph.node()) {
    for (const std::string &output : node.output())
      producers[output] = &node;
    if (isOp(node, "Constant"))
      addConstant(node);
    else
      followInts(node);
    const auto *value = findAttribute(node, "value");
    if ((isOp(node, "Constant") && value && isZeroTensor(value->t())) ||
        (isOp(node, "ConstantOfShape") && (!value || isZeroTensor(value->t()))))
      zeros.insert(node.output(0));
  }
}

void KnownTensors::addConstant(const ::onnx::NodeProto &node) {
  auto list = readConstant(node);
  if (!list)
    return;
  ints[node.output(0)] = *list;
  const auto *value = findAttribute(node, "value");
  if (value ? value->t().dims().empty()
            : bool(findAttribute(node, "value_int")))
    numbers.insert(node.output(0));
}

bool KnownTensors::addsOneAxis(const ::onnx::NodeProto &node) const {
  const auto *axes = findAttribute(node, "axes");
  const Shape *list = node.input_size() > 1 ? intsOf(node.input(1)) : nullptr;
  return isOp(node, "Unsqueeze") &&
         (axes ? axes->ints_size() == 1 : list && list->size() == 1);
}

/// What exporters do with the numbers of which they make lists.
void KnownTensors::followInts(const ::onnx::NodeProto &node) {
  const Shape *list = node.input_size() > 0 && node.output_size() == 1
                          ? intsOf(node.input(0))
                          : nullptr;
  if (!list)
    return;
  bool same = isOp(node, "Identity") ||
              (isOp(node, "Cast") &&
               intAttribute(node, "to", 0) == ::onnx::TensorProto::INT64);
  bool number = numbers.contains(node.input(0));
  if (!same && !(number && addsOneAxis(node)))
    return;
  ints[node.output(0)] = Shape(*list);
  if (same && number)
    numbers.insert(node.output(0));
}

const Shape *KnownTensors::shapeOf(StringRef name) const {
  auto found = shapes.find(name);
  return found == shapes.end() ? nullptr : &found->second;
}

const Shape *KnownTensors::intsOf(StringRef name) const {
  auto found = ints.find(name);
  return found == ints.end() ? nullptr : &found->second;
}

StringRef KnownTensors::movedFrom(StringRef name) const {
  const ::onnx::NodeProto *node = producerOf(name);
  bool moves = node && (isOp(*node, "Transpose") || isOp(*node, "Expand") ||
                        isOp(*node, "Reshape") || isOp(*node, "Identity"));
  if (!moves || !shapeOf(name) || !shapeOf(node->input(0)) ||
      *shapeOf(name) != *shapeOf(node->input(0)))
    return name;
  const auto *perm = findAttribute(*node, "perm");
  if (isOp(*node, "Transpose") && (!perm || !is_sorted(perm->ints())))
    return name;
  return node->input(0);
}

StringRef KnownTensors::sourceOf(StringRef name) const {
  for (StringRef from = movedFrom(name); from != name; from = movedFrom(name))
    name = from;
  return name;
}

bool KnownTensors::isConstant(StringRef name) const {
  std::vector<StringRef> waiting = {name};
  StringSet<> seen;
  while (!waiting.empty()) {
    StringRef next = waiting.back();
    waiting.pop_back();
    if (inputs.contains(next))
      return false;
    const ::onnx::NodeProto *node = producerOf(next);
    // A shape is known of data, too.
    if (node && seen.insert(next).second && !isOp(*node, "Shape"))
      waiting.insert(waiting.end(), node->input().begin(), node->input().end());
  }
  return true;
}

const ::onnx::NodeProto *KnownTensors::producerOf(StringRef name,
                                                  StringRef op) const {
  const ::onnx::NodeProto *node = producerOf(name);
  return node && isOp(*node, op) ? node : nullptr;
}

bool KnownTensors::isZero(StringRef name) const {
  while (!zeros.contains(name)) {
    const ::onnx::NodeProto *node = producerOf(name);
    if (!node || !(isOp(*node, "Expand") || isOp(*node, "Reshape") ||
                   isOp(*node, "Transpose") || isOp(*node, "Identity") ||
                   isOp(*node, "Cast") || isOp(*node, "CastLike")))
      return false;
    name = node->input(0);
  }
  return true;
}

void foldAxes(::onnx::GraphProto &graph) {
  KnownTensors known(graph);
  for (::onnx::NodeProto &node : *graph.mutable_node()) {
    const Shape *list = nullptr;
    if (isOp(node, "Unsqueeze"))
      list = known.intsOf(node.output(0)); // of a number
    else if (isOp(node, "Reshape") && node.input_size() == 2 &&
             known.intsOf(node.input(1)) &&
             known.intsOf(node.input(1))->size() == 1)
      list = known.intsOf(node.input(0));
    if (list)
      makeConstant(node, asTensor(*list));
  }
}

} // namespace shardonnx
