// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See KnownSizes.h.

#include "KnownSizes.h"

#include "Subgraphs.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <onnx/defs/tensor_proto_util.h>
#include <onnx/onnx_pb.h>

#include <cmath>

using namespace llvm;

namespace shardonnx {
namespace {

using Shape = std::vector<int64_t>;

/// Nobody computes a size in more steps.
constexpr int kMostSteps = 32;

/// Nor of more axes.
constexpr int64_t kMostSizes = 64;

class Sizes {
public:
  explicit Sizes(const KnownTensors &known) : known(known) {}

  std::optional<Shape> find(StringRef name, int steps);

private:
  std::optional<Shape> compute(StringRef name, int steps);
  std::optional<Shape> part(const ::onnx::NodeProto &node, Shape list);
  std::optional<Shape> combine(const ::onnx::NodeProto &node,
                               ArrayRef<Shape> operands);

  const KnownTensors &known;
  StringMap<Shape> found;
};

} // namespace

/// Elements of a list, by Gather or Slice.
std::optional<Shape> Sizes::part(const ::onnx::NodeProto &node, Shape list) {
  const Shape *first = known.intsOf(node.input(1));
  auto size = int64_t(list.size());
  auto place = [&](int64_t at) { return at < 0 ? at + size : at; };
  Shape result;
  if (!first)
    return std::nullopt;
  if (isOp(node, "Gather")) {
    for (int64_t at : *first) {
      if (place(at) < 0 || place(at) >= size)
        return std::nullopt;
      result.push_back(list[place(at)]);
    }
    return result;
  }
  const Shape *last = known.intsOf(node.input(2));
  if (!last || first->size() != 1 || last->size() != 1 || node.input_size() > 4)
    return std::nullopt;
  for (int64_t at = std::max<int64_t>(place(first->front()), 0);
       at < std::min(place(last->front()), size); ++at)
    result.push_back(list[at]);
  return result;
}

/// Element by element; what has one goes with all.
std::optional<Shape> Sizes::combine(const ::onnx::NodeProto &node,
                                    ArrayRef<Shape> operands) {
  size_t size = 1;
  for (const Shape &operand : operands)
    if (operand.size() != 1)
      size = operand.size();
  Shape result;
  for (size_t i = 0; i < size; ++i) {
    SmallVector<int64_t> at;
    for (const Shape &operand : operands) {
      if (operand.size() != 1 && operand.size() != size)
        return std::nullopt;
      at.push_back(operand[operand.size() == 1 ? 0 : i]);
    }
    // As wide as sizes are, nothing overflows.
    if (!all_of(at, isInt<32>))
      return std::nullopt;
    if (isOp(node, "Where"))
      result.push_back(at[0] ? at[1] : at[2]);
    else if (isOp(node, "Equal"))
      result.push_back(at[0] == at[1]);
    else if (isOp(node, "Add"))
      result.push_back(at[0] + at[1]);
    else if (isOp(node, "Sub"))
      result.push_back(at[0] - at[1]);
    else if (isOp(node, "Mul"))
      result.push_back(at[0] * at[1]);
    else if (at[1] != 0)
      result.push_back(at[0] / at[1]);
    else
      return std::nullopt;
  }
  return result;
}

/// Of a constant of one float, as exporters cast to the type of another number.
static std::optional<Shape> wholeNumber(const ::onnx::NodeProto &constant) {
  const auto *value = findAttribute(constant, "value");
  if (!value || value->t().data_type() != ::onnx::TensorProto::FLOAT ||
      value->t().dims_size() > 0 ||
      value->t().data_location() == ::onnx::TensorProto::EXTERNAL ||
      (value->t().float_data_size() != 1 &&
       value->t().raw_data().size() != sizeof(float)))
    return std::nullopt;
  float number = ::onnx::ParseData<float>(&value->t()).at(0);
  if (std::abs(number) > float(1 << 24) || number != std::trunc(number))
    return std::nullopt;
  return Shape{int64_t(number)};
}

/// What is not found ends the search: only what is found is asked for again.
std::optional<Shape> Sizes::find(StringRef name, int steps) {
  if (auto seen = found.find(name); seen != found.end())
    return seen->second;
  std::optional<Shape> sizes = compute(name, steps);
  if (!sizes || int64_t(sizes->size()) > kMostSizes)
    return std::nullopt;
  found[name] = *sizes;
  return sizes;
}

std::optional<Shape> Sizes::compute(StringRef name, int steps) {
  if (const Shape *list = known.intsOf(name))
    return *list;
  const ::onnx::NodeProto *node = known.producerOf(name);
  if (!node || steps == 0 || node->input_size() == 0)
    return std::nullopt;
  if (isOp(*node, "Shape")) {
    const Shape *shape = known.shapeOf(node->input(0));
    if (!shape)
      return std::nullopt;
    auto rank = int64_t(shape->size());
    auto bound = [&](StringRef attribute, int64_t otherwise) {
      int64_t at = intAttribute(*node, attribute, otherwise);
      return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
    };
    int64_t start = bound("start", 0), end = bound("end", rank);
    return Shape(shape->begin() + start, shape->begin() + std::max(start, end));
  }
  if (isOp(*node, "ConstantOfShape")) {
    std::optional<Shape> size = find(node->input(0), steps - 1);
    const auto *value = findAttribute(*node, "value");
    if (!size || size->size() != 1 || size->front() < 0 ||
        size->front() > kMostSizes || !value ||
        value->t().data_type() != ::onnx::TensorProto::INT64 ||
        value->t().data_location() == ::onnx::TensorProto::EXTERNAL ||
        (value->t().int64_data_size() != 1 &&
         value->t().raw_data().size() != sizeof(int64_t)))
      return std::nullopt;
    return Shape(size_t(size->front()),
                 ::onnx::ParseData<int64_t>(&value->t()).at(0));
  }
  static const StringSet<> ops = {"Add", "Cast",      "CastLike", "Concat",
                                  "Div", "Equal",     "Gather",   "Identity",
                                  "Mul", "Reshape",   "Slice",    "Squeeze",
                                  "Sub", "Unsqueeze", "Where"};
  if (!node->domain().empty() || !ops.contains(node->op_type()))
    return std::nullopt;
  static const StringSet<> lists = {"Add", "Concat", "Div",  "Equal",
                                    "Mul", "Sub",    "Where"};
  if (isOp(*node, "Cast") || isOp(*node, "CastLike")) {
    int type = isOp(*node, "Cast") ? int(intAttribute(*node, "to", 0))
                                   : known.typeOf(name);
    const ::onnx::NodeProto *from = known.producerOf(node->input(0));
    std::optional<Shape> number =
        from && isOp(*from, "Constant") && !known.intsOf(node->input(0))
            ? wholeNumber(*from)
            : find(node->input(0), steps - 1);
    bool fits = type == ::onnx::TensorProto::INT64 ||
                (type == ::onnx::TensorProto::INT32 && number &&
                 all_of(*number, isInt<32>));
    return fits ? number : std::nullopt;
  }
  std::vector<Shape> operands;
  for (const std::string &input : node->input()) {
    std::optional<Shape> operand = find(input, steps - 1);
    if (!operand)
      return std::nullopt;
    operands.push_back(std::move(*operand));
    if (!lists.contains(node->op_type()))
      break;
  }
  if (isOp(*node, "Gather") || isOp(*node, "Slice"))
    return part(*node, operands.front());
  if (!isOp(*node, "Concat"))
    return lists.contains(node->op_type()) ? combine(*node, operands)
                                           : std::optional(operands.front());
  Shape all;
  for (const Shape &operand : operands)
    append_range(all, operand);
  return all;
}

std::optional<Shape> sizesIn(const KnownTensors &known, StringRef name) {
  return Sizes(known).find(name, kMostSteps);
}

bool foldSizes(::onnx::ModelProto &model) {
  const ::onnx::ModelProto before = model; // what `known` points into
  KnownTensors known(before.graph());
  Sizes all(known);
  static const StringMap<std::vector<int>> readers = {{"ConstantOfShape", {0}},
                                                      {"Expand", {1}},
                                                      {"Range", {0, 1, 2}},
                                                      {"Reshape", {1}},
                                                      {"Slice", {1, 2}}};
  bool changed = false;
  for (::onnx::NodeProto &node : *model.mutable_graph()->mutable_node()) {
    auto reader = readers.find(node.op_type());
    if (reader == readers.end() || !node.domain().empty() ||
        known.shapeOf(node.output(0)) ||
        (isOp(node, "Range") &&
         known.typeOf(node.output(0)) != ::onnx::TensorProto::INT64))
      continue;
    for (int input : reader->second) {
      const ::onnx::NodeProto *made = input < node.input_size()
                                          ? known.producerOf(node.input(input))
                                          : nullptr;
      if (!made || isOp(*made, "Constant"))
        continue;
      std::optional<Shape> sizes = all.find(node.input(input), kMostSteps);
      if (!sizes)
        continue;
      ::onnx::TensorProto &list = *model.mutable_graph()->add_initializer();
      list = asTensor(*sizes);
      if (isOp(node, "Range"))
        list.clear_dims();
      list.set_name(node.output(0) + "_sizes_" + std::to_string(input));
      node.set_input(input, list.name());
      changed = true;
    }
  }
  return changed;
}

} // namespace shardonnx
