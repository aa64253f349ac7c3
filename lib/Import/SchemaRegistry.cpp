// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See SchemaRegistry.h.

#include "SchemaRegistry.h"

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
  if (!schema || !(schema->has_data_propagation_function() ||
                   lacksInference(*schema) || findCheck(*schema)))
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
