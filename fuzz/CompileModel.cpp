// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See CompileModel.h.

#include "CompileModel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Driver/Compilation.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"

#include <onnx/onnx_pb.h>

using namespace mlir;

namespace shardonnx::fuzz {
namespace {

constexpr int64_t kBatch = 2, kOther = 3;

/// The options for a model, of which every dimension has a number.
CompileOptions optionsFor(const std::string &path,
                          const ::onnx::ModelProto &model) {
  CompileOptions options;
  options.model = path;
  options.arch = "x86-64-v3"; // the same code on every machine
  for (const auto &input : model.graph().input()) {
    const auto &shape = input.type().tensor_type().shape();
    for (int axis = 0; axis < shape.dim_size(); ++axis) {
      if (shape.dim(axis).has_dim_value())
        continue;
      if (axis == 0)
        options.batch = kBatch;
      else if (!shape.dim(axis).dim_param().empty())
        options.dims[shape.dim(axis).dim_param()] = kOther;
    }
  }
  return options;
}

/// The shapes of what the graph is given, where it is run once.
ImportOptions givenInputs(const ::onnx::ModelProto &model) {
  ImportOptions import;
  import.inputs.emplace();
  llvm::StringMap<bool> weights;
  for (const auto &tensor : model.graph().initializer())
    weights[tensor.name()] = true;
  for (const auto &input : model.graph().input()) {
    if (weights.contains(input.name()))
      continue;
    GivenInput given{{}, "--input " + input.name()};
    const auto &shape = input.type().tensor_type().shape();
    for (int axis = 0; axis < shape.dim_size(); ++axis)
      given.shape.push_back(shape.dim(axis).has_dim_value()
                                ? shape.dim(axis).dim_value()
                            : axis == 0 ? kBatch
                                        : kOther);
    (*import.inputs)[input.name()] = given;
  }
  return import;
}

LogicalResult translate(ModuleOp module, Diagnostics &diags) {
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  llvm::LLVMContext context;
  auto translated = translateModuleToLLVMIR(module, context);
  std::string why;
  llvm::raw_string_ostream out(why);
  if (translated && !llvm::verifyModule(*translated, &out))
    return success();
  return diags.internalError("the LLVM IR is not valid: " + why);
}

LogicalResult compile(Compilation &compilation, CompileOptions &options,
                      Diagnostics &diags) {
  if (failed(compilation.runTo(Level::NN)))
    return failure();
  auto forward = compilation.module().lookupSymbol<func::FuncOp>("forward");
  // As `shardonnx eval` does: without a loss all gradients are zeros.
  if (options.program != ProgramKind::Train &&
      forward.getOps<nn::LossOp>().empty())
    options.program = ProgramKind::Eval;
  if (failed(compilation.runTo(Level::LLVM)))
    return failure();
  return translate(compilation.module(), diags);
}

/// Whether the messages are whole lines that begin with the program's name, and
/// none says that the compiler is at fault.
std::string judge(const Compiled &result) {
  StringRef messages = result.messages;
  if (!result.done && !messages.contains("fuzz: error: "))
    return "refused without a reason";
  SmallVector<StringRef> lines;
  messages.split(lines, '\n');
  if (!lines.pop_back_val().empty())
    return "a message ends inside a line";
  for (StringRef line : lines)
    if (!line.starts_with("fuzz: "))
      return "a message takes several lines";
  if (messages.contains(kFaultOfCompiler))
    return "an internal error";
  return "";
}

} // namespace

Compiled compileModel(const std::string &path, const std::string &bytes,
                      Made made) {
  ::onnx::ModelProto model;
  if (!model.ParseFromString(bytes))
    model.Clear(); // what it is not, the import says
  CompileOptions options = optionsFor(path, model);
  ImportOptions import;
  if (made == Made::Gradients) {
    options.program = ProgramKind::EvalGradients;
    options.batch.reset();
    options.dims.clear();
    import = givenInputs(model);
  }
  Compiled result;
  llvm::raw_string_ostream out(result.messages);
  Diagnostics diags("fuzz", out);
  Compilation compilation(options, diags, std::move(import));
  result.done = succeeded(compile(compilation, options, diags));
  result.complaint = judge(result);
  return result;
}

} // namespace shardonnx::fuzz
