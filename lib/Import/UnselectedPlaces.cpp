// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See UnselectedPlaces.h.

#include "UnselectedPlaces.h"

#include "Subgraphs.h"

#include <onnx/defs/tensor_proto_util.h>
#include <onnx/onnx_pb.h>

#include <cmath>

using namespace llvm;

namespace shardonnx {
namespace {

/// An input of an op whose slope is infinite, or grows beyond all bounds, at
/// some of its values, and a value at which it is not.
struct Steep {
  int input;
  int harmless;
};

std::optional<Steep> steepInputOf(StringRef op) {
  static const StringMap<Steep> ops = {
      {"Acos", {0, 0}},  {"Acosh", {0, 2}},        {"Asin", {0, 0}},
      {"Atanh", {0, 0}}, {"Cosh", {0, 0}},         {"Div", {1, 1}},
      {"Exp", {0, 0}},   {"Log", {0, 1}},          {"Mod", {1, 1}},
      {"Pow", {0, 1}},   {"Reciprocal", {0, 1}},   {"ReduceL2", {0, 1}},
      {"Sinh", {0, 0}},  {"ReduceLogSum", {0, 1}}, {"ReduceProd", {0, 1}},
      {"Sqrt", {0, 1}},  {"Tan", {0, 0}}};
  auto found = ops.find(op);
  return found == ops.end() ? std::nullopt : std::optional(found->second);
}

/// So low that nothing is beside it in a softmax.
double lowestOf(int type) {
  return type == ::onnx::TensorProto::FLOAT16 ? -65504 : -1e38;
}

/// Ops through which a gradient of zero stays zero, whatever they read.
bool handsZeroOn(StringRef op) {
  static const StringSet<> ops = {
      "Add",       "Cast",      "CastLike", "Concat",    "Expand",
      "Flatten",   "Gather",    "GatherND", "Identity",  "GatherElements",
      "Mean",      "Neg",       "Reshape",  "Slice",     "ReduceMean",
      "ReduceSum", "ScatterND", "Split",    "Squeeze",   "ScatterElements",
      "Sub",       "Sum",       "Tile",     "Transpose", "Unsqueeze",
      "Where"};
  return ops.contains(op);
}

/// Ops whose gradient is not a number where what they read is none.
bool makesNoNumber(StringRef op) {
  static const StringSet<> ops = {
      "Attention",  "Elu",      "Erf",  "Exp",     "Gelu", "Log",
      "LogSoftmax", "Mish",     "Pow",  "Sigmoid", "Sin",  "Reciprocal",
      "Softmax",    "Softplus", "Sqrt", "Swish",   "Tanh"};
  return ops.contains(op) || op.ends_with("Normalization");
}

/// Ops of whose first two inputs each is a factor of the other's gradient.
bool isProduct(StringRef op) {
  static const StringSet<> ops = {"Conv", "ConvTranspose", "Div", "Einsum",
                                  "Gemm", "MatMul",        "Mul"};
  return ops.contains(op);
}

template <typename T> std::vector<double> read(const ::onnx::TensorProto &of) {
  std::vector<T> values = ::onnx::ParseData<T>(&of);
  return {values.begin(), values.end()};
}

/// The elements, where their bytes are here.
std::vector<double> elementsIn(const ::onnx::TensorProto &tensor) {
  constexpr int64_t kMost = int64_t(1) << 31;
  std::vector<int64_t> dims(tensor.dims().begin(), tensor.dims().end());
  std::optional<int64_t> found = elementsUpTo(dims, kMost);
  if (tensor.data_location() == ::onnx::TensorProto::EXTERNAL || !found)
    return {};
  int64_t count = *found;
  std::vector<double> result;
  switch (tensor.data_type()) {
  case ::onnx::TensorProto::FLOAT:
    if (tensor.float_data_size() == count ||
        int64_t(tensor.raw_data().size()) == count * int64_t(sizeof(float)))
      result = read<float>(tensor);
    break;
  case ::onnx::TensorProto::DOUBLE:
    if (tensor.double_data_size() == count ||
        int64_t(tensor.raw_data().size()) == count * int64_t(sizeof(double)))
      result = read<double>(tensor);
    break;
  case ::onnx::TensorProto::INT64:
    if (tensor.int64_data_size() == count ||
        int64_t(tensor.raw_data().size()) == count * int64_t(sizeof(int64_t)))
      result = read<int64_t>(tensor);
    break;
  default:
    break;
  }
  return result;
}

} // namespace

UnselectedPlaces::UnselectedPlaces(const ::onnx::GraphProto &graph,
                                   const KnownTensors &known,
                                   const RowTracer &tracer,
                                   const ValueOrigins &origins)
    : known(known), tracer(tracer), trained(origins.trained),
      unknown(origins.infinite) {
  for (const auto &input : graph.input()) {
    if (trained.contains(input.name()) ||
        origins.constants.contains(input.name()))
      continue;
    data.insert(input.name());
    if (isFloat(input.type().tensor_type().elem_type()))
      unknown.insert(input.name());
  }
  for (const auto &tensor : graph.initializer())
    noteConstant(tensor.name(), tensor);
  for (const ::onnx::NodeProto &node : graph.node())
    visit(node, origins.detaches(node));
}

void UnselectedPlaces::noteConstant(const std::string &name,
                                    const ::onnx::TensorProto &value) {
  std::vector<double> elements = elementsIn(value);
  if (elements.size() == 1)
    numbers[name] = elements.front();
  if (any_of(elements, [](double item) { return !std::isfinite(item); }))
    unknown.insert(name);
}

/// What exporters do with a number before it is an operand.
void UnselectedPlaces::followNumber(const ::onnx::NodeProto &node) {
  static const StringSet<> same = {"Cast",     "CastLike", "Expand",
                                   "Identity", "Reshape",  "Squeeze",
                                   "Unsqueeze"};
  if (!same.contains(node.op_type()) || node.input_size() == 0)
    return;
  auto found = numbers.find(node.input(0));
  if (found == numbers.end())
    return;
  double number = found->second;
  if (isOp(node, "Cast") && !isFloat(int(intAttribute(node, "to", 0))))
    number = std::trunc(number);
  numbers[node.output(0)] = number;
}

bool UnselectedPlaces::isAny(const ::onnx::NodeProto &node,
                             const StringSet<> &values) const {
  return any_of(node.input(), [&](const std::string &input) {
    return values.contains(input);
  });
}

bool UnselectedPlaces::isFloatValue(StringRef name) const {
  int type = known.typeOf(name);
  return type == 0 || isFloat(type);
}

void UnselectedPlaces::visit(const ::onnx::NodeProto &node, bool detached) {
  if (isOp(node, "Constant") || isOp(node, "ConstantOfShape")) {
    if (const auto *value = findAttribute(node, "value"))
      noteConstant(node.output(0), value->t());
    else if (const auto *number = findAttribute(node, "value_float"))
      numbers[node.output(0)] = number->f();
    else if (const auto *count = findAttribute(node, "value_int"))
      numbers[node.output(0)] = double(count->i());
    return;
  }
  followNumber(node);
  bool ofData =
           !isOp(node, "Shape") && !isOp(node, "Size") && isAny(node, data),
       ofWeights = !detached && !hasNoGradient(node) && isAny(node, trained),
       noNumber = makesUnknown(node);
  for (const std::string &output : node.output()) {
    if (ofData)
      data.insert(output);
    if (!isFloatValue(output))
      continue;
    if (ofWeights)
      trained.insert(output);
    // What has no gradient may be anything that data make it.
    if (noNumber || (!ofWeights && ofData && !tracer.rowsOf(output)))
      unknown.insert(output);
  }
}

bool UnselectedPlaces::makesUnknown(const ::onnx::NodeProto &node) const {
  StringRef op = node.op_type();
  auto is = [&](int i, const StringSet<> &values) {
    return i < node.input_size() && values.contains(node.input(i));
  };
  bool rows = any_of(node.input(), [&](const std::string &input) {
    return tracer.rowsOf(input);
  });
  if (rows)
    return handsZeroOn(op) && !picksUnknown(node) && isAny(node, unknown);
  if (makesNoNumber(op))
    return isAny(node, unknown) && !isAny(node, trained);
  if (isProduct(op))
    return (is(0, unknown) && !is(1, trained)) ||
           (is(1, unknown) && !is(0, trained)) || is(2, unknown);
  return isAny(node, unknown);
}

bool UnselectedPlaces::picksUnknown(const ::onnx::NodeProto &node) const {
  return StringRef(node.op_type()).starts_with("Gather") &&
         tracer.rowsOf(node.input(1)) && unknown.contains(node.input(0));
}

/// Whether a power is a product: x², x³, …
bool UnselectedPlaces::isWholePower(const ::onnx::NodeProto &node) const {
  auto exponent = numbers.find(node.input(1));
  return exponent != numbers.end() && exponent->second >= 0 &&
         exponent->second == std::trunc(exponent->second);
}

/// Whether the data of a node that reads by a mask's places have them all.
bool UnselectedPlaces::holdsPlaces(const ::onnx::NodeProto &node) const {
  const Rows &indices = *tracer.rowsOf(node.input(1));
  const std::vector<int64_t> *data = known.shapeOf(node.input(0)),
                             *mask = known.shapeOf(indices.mask);
  if (!data || !mask)
    return false;
  int64_t along = normalized(intAttribute(node, "axis", 0), data->size()),
          first = intAttribute(node, "batch_dims", 0);
  return all_of(enumerate(*indices.columns), [&](const auto &item) {
    int64_t axis =
        isOp(node, "GatherND") ? first + int64_t(item.index()) : along;
    return axis < int64_t(data->size()) &&
           (*data)[axis] >= (*mask)[item.value()];
  });
}

std::optional<double> UnselectedPlaces::neededBy(const ::onnx::NodeProto &node,
                                                 int input) const {
  const Rows *rows = tracer.rowsOf(node.input(input));
  if (!rows)
    return std::nullopt;
  StringRef op = node.op_type();
  if (op.starts_with("Scatter") && tracer.addsRows(node))
    return 0; // nothing, to the first
  if ((op.starts_with("Gather") || isOp(node, "ScatterElements")) && input == 1)
    return rows->columns && holdsPlaces(node) ? std::nullopt
                                              : std::optional(0.0);
  size_t rank = known.shapeOf(node.input(input))->size();
  if (op.ends_with("Softmax") &&
      normalized(intAttribute(node, "axis", -1), rank) == rows->axis)
    return lowestOf(known.typeOf(node.input(input)));
  std::optional<Steep> steep = steepInputOf(op);
  if (steep &&
      (isOp(node, "Pow") ? !isWholePower(node) : steep->input == input))
    return steep->harmless;
  if (!handsZeroOn(op) && unknown.contains(node.input(input)))
    return 0;
  return std::nullopt;
}

} // namespace shardonnx
