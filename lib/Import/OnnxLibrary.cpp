// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The only file that calls the ONNX library, and so the only one that is built
// with exceptions: every call becomes an llvm::Error.

#include "OnnxLibrary.h"

#include <onnx/checker.h>
#include <onnx/defs/schema.h>
#include <onnx/inliner/inliner.h>
#include <onnx/shape_inference/implementation.h>
#include <onnx/version_converter/convert.h>

#include <set>
#include <string>

namespace shardonnx::onnxlib {
namespace {

/// The library lists what follows from an error, too: the first one is enough.
std::string firstError(std::string message) {
  size_t first = message.find("(op_type:");
  size_t second =
      first == std::string::npos ? first : message.find("(op_type:", first + 1);
  if (second != std::string::npos)
    message.resize(second);
  return message;
}

template <typename Call> llvm::Error guarded(Call call) {
  try {
    call();
    return llvm::Error::success();
  } catch (const std::exception &exception) {
    return llvm::createStringError(firstError(exception.what()));
  }
}

} // namespace

llvm::Error inlineFunctions(::onnx::ModelProto &model) {
  if (model.functions_size() == 0)
    return llvm::Error::success();
  return guarded([&] { ::onnx::inliner::InlineLocalFunctions(model, true); });
}

llvm::Error
expandSchemaFunctions(::onnx::ModelProto &model,
                      llvm::function_ref<bool(llvm::StringRef)> isKnown) {
  std::set<::onnx::inliner::FunctionId> unknown;
  for (const ::onnx::NodeProto &node : model.graph().node())
    if (!isKnown(node.op_type()))
      unknown.insert({node.domain(), node.op_type()});
  if (unknown.empty())
    return llvm::Error::success();
  return guarded([&] {
    auto ids = ::onnx::inliner::FunctionIdSet::Create(
        ::onnx::inliner::FunctionIdVector(unknown.begin(), unknown.end()));
    ::onnx::inliner::InlineSelectedFunctions(model, *ids, nullptr);
  });
}

llvm::Error convertVersion(::onnx::ModelProto &model, int version) {
  return guarded([&] {
    model = ::onnx::version_conversion::ConvertVersion(model, version);
  });
}

llvm::Error check(const ::onnx::ModelProto &model) {
  return guarded([&] { ::onnx::checker::check_model(model); });
}

llvm::Error inferShapes(::onnx::ModelProto &model) {
  // Types are not compared with the schemas: PyTorch exports bf16 where they do
  // not list it, and the verifiers of the `nn` dialect are strict enough.
  return guarded([&] {
    ::onnx::ShapeInferenceOptions options(/*check_type_val=*/false,
                                          /*strict_mode_val=*/1,
                                          /*data_prop_val=*/true);
    ::onnx::shape_inference::InferShapes(
        model, ::onnx::OpSchemaRegistry::Instance(), options);
  });
}

int newestOpset() {
  return ::onnx::OpSchemaRegistry::DomainToVersionRange::Instance()
      .Map()
      .at(::onnx::ONNX_DOMAIN)
      .second;
}

} // namespace shardonnx::onnxlib
