// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See SchemaRegistry.h.

#include "SchemaRegistry.h"

#include <onnx/defs/tensor_proto_util.h>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MathExtras.h"

#include <string>

namespace shardonnx::onnxlib {
namespace {

constexpr int64_t longestFollowed = 1024;
constexpr int64_t mostParts = int64_t(1) << 20;

/// Whether the library has not said which types the op makes: those of its
/// first input, as its function body has it.
bool lacksInference(const ::onnx::OpSchema &schema) {
  return !schema.has_type_and_shape_inference_function() &&
         schema.domain() == ::onnx::ONNX_DOMAIN &&
         (schema.Name() == "GroupNormalization" ||
          schema.Name() == "MeanVarianceNormalization");
}

/// The library reads axes from the number of batch axes and the last size of
/// the indices on, which it has not bounded from below.
void checkGatherND(::onnx::InferenceContext &context) {
  const ::onnx::AttributeProto *batch = context.getAttribute("batch_dims");
  bool negative = batch && batch->i() < 0;
  if (context.getNumInputs() > 1 && ::onnx::hasInputShape(context, 1))
    for (const auto &size : ::onnx::getInputShape(context, 1).dim())
      negative |= size.has_dim_value() && size.dim_value() < 0;
  if (negative)
    fail_shape_inference("GatherND: batch_dims or a size is negative");
}

/// The library makes a list of so many sizes before it compares it with the
/// outputs.
void checkSplit(::onnx::InferenceContext &context) {
  const ::onnx::AttributeProto *parts = context.getAttribute("num_outputs");
  if (parts && (parts->i() < 1 || parts->i() > mostParts))
    fail_shape_inference("Split: num_outputs is negative or too large");
}

/// Of a term of Einsum: letters, and once an ellipsis.
bool isTerm(llvm::StringRef term) {
  auto [before, after] = term.split("...");
  return llvm::all_of(before, llvm::isAlpha) &&
         llvm::all_of(after, llvm::isAlpha);
}

/// At any other character the library stops going forward, and reads sizes
/// behind the last.
void checkEinsum(::onnx::InferenceContext &context) {
  std::string equation = ::onnx::getAttribute(context, "equation", "");
  llvm::erase(equation, ' ');
  auto [operands, result] = llvm::StringRef(equation).split("->");
  llvm::SmallVector<llvm::StringRef> terms;
  operands.split(terms, ',');
  terms.push_back(result);
  if (!llvm::all_of(terms, isTerm))
    fail_shape_inference("Einsum: the equation '", equation,
                         "' has something besides letters, commas, an arrow "
                         "and an ellipsis in a term");
}

/// The library counts from an axis in 32 bits, some ops before they compare it
/// with the rank.
void checkAxis(::onnx::InferenceContext &context) {
  const ::onnx::AttributeProto *axis = context.getAttribute("axis");
  if (axis && !llvm::isInt<32>(axis->i()))
    fail_shape_inference("axis ", axis->i(), " is no axis of any tensor");
}

/// The axes of a Squeeze, an attribute before opset 13; empty where they are
/// not known, or all that are 1.
std::vector<int64_t> squeezedAxes(::onnx::InferenceContext &context) {
  if (const ::onnx::AttributeProto *axes = context.getAttribute("axes"))
    return {axes->ints().begin(), axes->ints().end()};
  const ::onnx::TensorProto *axes =
      context.getNumInputs() > 1 ? context.getInputData(1) : nullptr;
  bool known = axes && axes->data_type() == ::onnx::TensorProto::INT64 &&
               !(axes->has_data_location() &&
                 axes->data_location() == ::onnx::TensorProto::EXTERNAL);
  return known ? ::onnx::ParseData<int64_t>(axes) : std::vector<int64_t>();
}

/// PyTorch's exporter writes a Squeeze for squeeze(dim) of an axis that is
/// longer than 1, which stays as it is, and the library has none of it. Whether
/// a node means that, its lowering asks.
bool squeezeLonger(::onnx::InferenceContext &context) {
  if (!::onnx::hasInputShape(context, 0))
    return false;
  ::onnx::TensorShapeProto shape = ::onnx::getInputShape(context, 0), kept;
  llvm::SmallVector<bool> dropped(shape.dim_size(), false);
  bool longer = false;
  for (int64_t axis : squeezedAxes(context)) {
    axis += axis < 0 ? shape.dim_size() : 0;
    if (axis < 0 || axis >= shape.dim_size() ||
        !shape.dim(static_cast<int>(axis)).has_dim_value())
      return false;
    bool one = shape.dim(static_cast<int>(axis)).dim_value() == 1;
    dropped[axis] = one;
    longer |= !one;
  }
  if (!longer)
    return false;
  for (int i = 0; i < shape.dim_size(); ++i)
    if (!dropped[i])
      *kept.add_dim() = shape.dim(i);
  ::onnx::propagateElemTypeFromInputToOutput(context, 0, 0);
  ::onnx::updateOutputShape(context, 0, kept);
  return true;
}

/// The integers of an attribute, as many as there are spatial axes.
std::vector<int64_t> perAxis(::onnx::InferenceContext &context,
                             const char *name, int count, int64_t otherwise) {
  std::vector<int64_t> values;
  if (const ::onnx::AttributeProto *given = context.getAttribute(name))
    values.assign(given->ints().begin(), given->ints().end());
  values.resize(count, otherwise);
  return values;
}

/// With ceil_mode the library counts a window that would begin in the padding
/// behind the input, which the standard and PyTorch leave out.
void dropWindowsInPadding(::onnx::InferenceContext &context) {
  if (::onnx::getAttribute(context, "ceil_mode", 0) == 0 ||
      ::onnx::getAttribute(context, "auto_pad", "NOTSET") != "NOTSET" ||
      !::onnx::hasInputShape(context, 0))
    return;
  const ::onnx::TensorShapeProto &input = ::onnx::getInputShape(context, 0);
  int count = input.dim_size() - 2;
  if (count < 1)
    return;
  std::vector<int64_t> strides = perAxis(context, "strides", count, 1),
                       pads = perAxis(context, "pads", 2 * count, 0);
  for (size_t output = 0; output < context.getNumOutputs(); ++output) {
    ::onnx::TypeProto *type = context.getOutputType(output);
    if (!type || !type->tensor_type().has_shape() ||
        type->tensor_type().shape().dim_size() != count + 2)
      continue;
    auto &shape = *type->mutable_tensor_type()->mutable_shape();
    for (int i = 0; i < count; ++i) {
      auto &places = *shape.mutable_dim(i + 2);
      const auto &size = input.dim(i + 2);
      int64_t end = 0, begin = 0;
      if (!places.has_dim_value() || !size.has_dim_value() ||
          llvm::AddOverflow(size.dim_value(), pads[i], end) ||
          llvm::MulOverflow(places.dim_value() - 1, strides[i], begin))
        continue;
      if (begin >= end && places.dim_value() > 1)
        places.set_dim_value(places.dim_value() - 1);
    }
  }
}

bool isPool(const ::onnx::OpSchema &schema) {
  return schema.Name() == "MaxPool" || schema.Name() == "AveragePool" ||
         schema.Name() == "LpPool";
}

/// Whether shapes are inferred otherwise than by the library alone.
bool infersOtherwise(const ::onnx::OpSchema &schema) {
  return schema.has_type_and_shape_inference_function() &&
         schema.domain() == ::onnx::ONNX_DOMAIN &&
         (isPool(schema) || schema.Name() == "Squeeze");
}

using Check = void (*)(::onnx::InferenceContext &);

/// What is checked before the library infers, or null.
Check findCheck(const ::onnx::OpSchema &schema) {
  if (!schema.has_type_and_shape_inference_function() ||
      schema.domain() != ::onnx::ONNX_DOMAIN)
    return nullptr;
  return schema.Name() == "Einsum"           ? checkEinsum
         : schema.Name() == "GatherND"       ? checkGatherND
         : schema.Name() == "Split"          ? checkSplit
         : schema.attributes().count("axis") ? checkAxis
                                             : nullptr;
}

/// Whether no input is a long vector.
bool isShort(const ::onnx::DataPropagationContext &context) {
  for (size_t i = 0; i < context.getNumInputs(); ++i) {
    const ::onnx::TypeProto *type = context.getInputType(i);
    if (!type || !type->has_tensor_type())
      continue;
    const auto &shape = type->tensor_type().shape();
    if (shape.dim_size() == 1 && shape.dim(0).dim_value() > longestFollowed)
      return false;
  }
  return true;
}

} // namespace

const ::onnx::OpSchema *
SchemaRegistry::GetSchema(const std::string &op, int version,
                          const std::string &domain) const {
  const ::onnx::OpSchema *schema =
      ::onnx::OpSchemaRegistry::Schema(op, version, domain);
  if (!schema ||
      !(schema->has_data_propagation_function() || lacksInference(*schema) ||
        findCheck(*schema) || infersOtherwise(*schema)))
    return schema;
  auto &own = schemas[{op, version, domain}];
  if (own)
    return own.get();
  own = std::make_unique<::onnx::OpSchema>(*schema);
  if (lacksInference(*schema))
    own->TypeAndShapeInferenceFunction(
        ::onnx::propagateShapeAndTypeFromFirstInput);
  if (Check check = findCheck(*schema))
    own->TypeAndShapeInferenceFunction(
        [check, infer = schema->GetTypeAndShapeInferenceFunction()](
            ::onnx::InferenceContext &context) {
          check(context);
          infer(context);
        });
  if (infersOtherwise(*schema))
    own->TypeAndShapeInferenceFunction(
        [pools = isPool(*schema),
         infer = schema->GetTypeAndShapeInferenceFunction()](
            ::onnx::InferenceContext &context) {
          if (pools || !squeezeLonger(context))
            infer(context);
          if (pools)
            dropWindowsInPadding(context);
        });
  if (schema->has_data_propagation_function())
    own->PartialDataPropagationFunction(
        [follow = schema->GetDataPropagationFunction()](
            ::onnx::DataPropagationContext &context) {
          if (!isShort(context))
            return;
          try {
            follow(context);
            // Elements that overflow are elements that are not known here.
            // NOLINTNEXTLINE(bugprone-empty-catch)
          } catch (const ::onnx::InferenceError &) {
          }
        });
  return own.get();
}

} // namespace shardonnx::onnxlib
