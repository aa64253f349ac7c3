// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See SchemaRegistry.h.

#include "SchemaRegistry.h"

namespace shardonnx::onnxlib {
namespace {

constexpr int64_t longestFollowed = 1024;

/// Whether the library has not said which types the op makes: those of its
/// first input, as its function body has it.
bool lacksInference(const ::onnx::OpSchema &schema) {
  return !schema.has_type_and_shape_inference_function() &&
         schema.domain() == ::onnx::ONNX_DOMAIN &&
         (schema.Name() == "GroupNormalization" ||
          schema.Name() == "MeanVarianceNormalization");
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
      !(schema->has_data_propagation_function() || lacksInference(*schema)))
    return schema;
  auto &own = schemas[{op, version, domain}];
  if (own)
    return own.get();
  own = std::make_unique<::onnx::OpSchema>(*schema);
  if (lacksInference(*schema))
    own->TypeAndShapeInferenceFunction(
        ::onnx::propagateShapeAndTypeFromFirstInput);
  if (schema->has_data_propagation_function())
    own->PartialDataPropagationFunction(
        [follow = schema->GetDataPropagationFunction()](
            ::onnx::DataPropagationContext &context) {
          if (isShort(context))
            follow(context);
        });
  return own.get();
}

} // namespace shardonnx::onnxlib
