// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See EvalProgram.h.

#include "EvalProgram.h"
#include "ExternalFiles.h"
#include "OutputCheck.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/Exec/IR/Exec.h"
#include "shardonnx/Dialect/ONNX/IR/ONNX.h"
#include "shardonnx/Differentiate/Passes.h"
#include "shardonnx/Support/TemporaryFile.h"
#include "shardonnx/runtime/InputKind.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace shardonnx {

static CompileOptions compileOptionsOf(const EvalOptions &options) {
  CompileOptions compile;
  compile.model = options.model;
  compile.program =
      options.gradients ? ProgramKind::EvalGradients : ProgramKind::Eval;
  compile.dropout = options.dropout;
  compile.strictNumerics = options.strictNumerics;
  return compile;
}

ImportOptions EvalProgram::importOptions() const {
  ImportOptions import;
  import.inputs.emplace();
  for (const EvalInput &input : inputs)
    (*import.inputs)[input.name] = {input.shape, input.source()};
  if (plan.known == Known::Everything)
    import.isSupported = isEvaluable;
  return import;
}

EvalProgram::EvalProgram(const EvalOptions &options, ArrayRef<EvalInput> inputs,
                         EvalPlan plan, Diagnostics &diagnostics)
    : options(options), inputs(inputs), plan(plan), diags(diagnostics),
      compileOptions(compileOptionsOf(options)),
      compilation(compileOptions, diagnostics, importOptions()) {}

//===----------------------------------------------------------------------===//
// What is known of the graph
//===----------------------------------------------------------------------===//

LogicalResult EvalProgram::bindInputs() {
  auto forward = module().lookupSymbol<func::FuncOp>("forward");
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    auto name = forward.getArgAttrOfType<StringAttr>(i, "onnx.name");
    auto type = dyn_cast<RankedTensorType>(forward.getArgument(i).getType());
    const EvalInput *input = llvm::find_if(
        inputs, [&](const EvalInput &each) { return each.name == name; });
    if (!type || input == inputs.end())
      return diags.error("'" + options.model + "': input '" + name.getValue() +
                         "' is no tensor");
    Type element = type.getElementType();
    if (!holds(input->descr, element)) {
      final = true;
      return diags.error(input->source() + " has dtype '" + input->descr +
                         "', but input '" + input->name + "' is " +
                         typeName(element) + " ('" + numpyDescr(element) +
                         "')");
    }
    bool integers = isa<IntegerType>(element);
    integerInputs |= integers;
    if (plan.known == Known::Nothing ||
        (plan.known == Known::Integers && !integers))
      continue;
    auto value = readElements(*input, type, diags);
    if (failed(value))
      return failure();
    forward.setArgAttr(i, kInputValueAttr, *value);
  }
  return success();
}

/// A weight is an argument of the program where it is trainable, else a
/// constant.
void EvalProgram::markInitializers() {
  for (auto init : module().getOps<onnx::InitializerOp>()) {
    auto type = cast<RankedTensorType>(init.getType());
    std::string name = init.getGraphName().value_or(init.getSymName()).str();
    bool isFloat = isa<FloatType>(type.getElementType());
    if (plan.known == Known::Everything)
      init.setTrainable(false);
    else if (options.gradients && plan.allWeights && isFloat)
      init.setTrainable(true);
    if (options.gradients && init.getTrainable())
      trained.emplace_back(name, type);
    else if (options.gradients && isFloat)
      constants.push_back(name);
    if (auto value = init.getValue())
      values[init.getSymName()] = cast<DenseElementsAttr>(*value);
  }
}

//===----------------------------------------------------------------------===//
// What the levels have made of it
//===----------------------------------------------------------------------===//

/// What no program can compute as the graph says.
LogicalResult EvalProgram::checkRaised() {
  WalkResult result = module().walk([](Operation *op) {
    if (isa<nn::DropoutOp>(op))
      op->emitError("draws random numbers; --dropout=off leaves it out");
    else if (isa<nn::RandomUniformOp>(op))
      op->emitError("draws random numbers, which only training does");
    else
      return WalkResult::advance();
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// The outputs that the raise has computed, and those that the program will.
void EvalProgram::collectOutputs() {
  auto forward = module().lookupSymbol<func::FuncOp>("forward");
  for (unsigned i = 0; i < forward.getNumResults(); ++i) {
    auto name = forward.getResultAttrOfType<StringAttr>(i, nn::kNameAttr);
    EvalOutput output;
    output.fileName = fileNameOf(name.getValue()) + ".npy";
    output.value =
        forward.getResultAttrOfType<DenseElementsAttr>(i, nn::kValueAttr);
    output.type = cast<RankedTensorType>(
        output.value ? Type(output.value.getType())
                     : Type(forward.getResultTypes()[i]));
    outputs.push_back(std::move(output));
  }
}

static std::string gradientFile(StringRef name) {
  return fileNameOf(name) + ".grad.npy";
}

/// The arguments of @eval, then its results: what lies in which buffer.
void EvalProgram::collectBuffers() {
  auto eval = module().lookupSymbol<func::FuncOp>("eval");
  for (unsigned i = 0; i < eval.getNumArguments(); ++i) {
    EvalBuffer buffer;
    buffer.type = cast<RankedTensorType>(eval.getArgument(i).getType());
    buffer.name = eval.getArgAttrOfType<StringAttr>(i, nn::kNameAttr).str();
    auto weight = eval.getArgAttrOfType<StringAttr>(i, nn::kWeightAttr);
    auto source = eval.getArgAttrOfType<nn::ExternalAttr>(i, nn::kSourceAttr);
    if (source) {
      buffer.file = pathBeside(options.model, source.getFile().getValue());
      buffer.offset = source.getOffset();
    } else if (weight) {
      buffer.value = values.lookup(weight.getValue());
    } else {
      const EvalInput *input = llvm::find_if(
          inputs, [&](const auto &each) { return each.name == buffer.name; });
      buffer.file = input->path;
      buffer.offset = input->offset;
    }
    buffers.push_back(std::move(buffer));
  }
  for (unsigned i = 0; i < eval.getNumResults(); ++i) {
    EvalBuffer buffer;
    buffer.type = cast<RankedTensorType>(eval.getResultTypes()[i]);
    if (auto of =
            eval.getResultAttrOfType<StringAttr>(i, nn::kGradientOfAttr)) {
      EvalOutput output;
      output.fileName = gradientFile(of.getValue());
      output.type = buffer.type;
      output.gradient = true;
      outputs.push_back(std::move(output));
    }
    buffers.push_back(std::move(buffer));
  }
  firstOutput = eval.getNumArguments();
  addZeroGradients();
}

/// Weights that nothing reads are in no program.
void EvalProgram::addZeroGradients() {
  llvm::StringSet<> known;
  for (const EvalOutput &output : outputs)
    if (output.gradient)
      known.insert(output.fileName);
  Builder builder(module().getContext());
  for (auto &[name, type] : trained) {
    EvalOutput output;
    output.fileName = gradientFile(name);
    output.type = type;
    output.gradient = true;
    output.value = DenseElementsAttr::get(
        type, builder.getZeroAttr(type.getElementType()));
    if (known.insert(output.fileName).second)
      outputs.push_back(std::move(output));
  }
}

/// What the planned program says of its buffers.
void EvalProgram::collectPlan() {
  for (auto input : module().getOps<exec::InputOp>()) {
    EvalBuffer &buffer = buffers[input.getIndex()];
    buffer.limit = int64_t(input.getLimit());
    std::optional<InputKind> kind = parseSpelling<InputKind>(input.getKind());
    if (kind && isLabel(*kind))
      buffer.ignoredLabel = int64_t(input.getIgnoreIndex());
  }
  for (auto space : module().getOps<exec::SpacePlanOp>())
    if (space.getSpace() == exec::Space::private_)
      privateBytes = int64_t(space.getBytes());
}

/// Is there a path from a float input or initializer to an output?
static bool hasLoss(ModuleOp module) {
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  return !forward.getOps<nn::LossOp>().empty();
}

LogicalResult EvalProgram::compile() {
  if (failed(compilation.runTo(Level::Onnx)) || failed(bindInputs()))
    return failure();
  markInitializers();
  if (failed(compilation.runTo(Level::NN)))
    return failure();
  collectOutputs();
  bool known = llvm::all_of(
      outputs, [](const EvalOutput &each) { return bool(each.value); });
  if (known && !options.gradients)
    return success();
  if (failed(checkRaised()))
    return failure();
  // Without such a path all gradients are zeros.
  if (!hasLoss(module()))
    compilation.setProgram(ProgramKind::Eval);
  if (failed(compilation.runTo(Level::Grad)))
    return failure();
  collectBuffers();
  if (failed(compilation.runTo(Level::Memory)))
    return failure();
  collectPlan();
  return compilation.runTo(Level::Object);
}

//===----------------------------------------------------------------------===//
// The run
//===----------------------------------------------------------------------===//

void EvalProgram::keepGradients(ArrayRef<std::string> names) {
  llvm::StringSet<> files;
  for (const std::string &name : names)
    files.insert(gradientFile(name));
  for (EvalOutput &output : outputs)
    output.wanted = output.gradient && files.contains(output.fileName);
}

/// Writes every output beside its final name, then gives all their names.
LogicalResult EvalProgram::run() {
  std::vector<InputName> read = {{"the model itself", options.model}};
  for (const EvalInput &input : inputs)
    read.push_back({"the file that --input names", input.path});
  std::vector<std::pair<std::unique_ptr<TemporaryFile>, std::string>> files;
  size_t computed = firstOutput;
  for (const EvalOutput &output : outputs) {
    size_t buffer = output.value ? buffers.size() : computed++;
    if (!output.wanted)
      continue;
    llvm::SmallString<256> path(options.outputDir);
    llvm::sys::path::append(path, output.fileName);
    if (failed(checkIsNoInput("--output-dir", path.str().str(), read, diags)))
      return failure();
    int descriptor = -1;
    std::string half;
    if (std::error_code error =
            TemporaryFile::createBeside(path, descriptor, half))
      return diags.error("cannot write '" + path + "': " + error.message());
    files.emplace_back(std::make_unique<TemporaryFile>(half), path.str().str());
    llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
    if (output.value)
      stream << npyOf(output.value);
    else
      buffers[buffer].output = half;
    stream.close();
    if (stream.has_error()) {
      std::string message = stream.error().message();
      stream.clear_error();
      return diags.error("cannot write '" + path + "': " + message);
    }
  }
  ArrayRef<ObjectBytes> objects = compilation.getObjects();
  EvalJob job{objects, buffers, privateBytes};
  if (!objects.empty() && failed(runEvalJob(job, diags)))
    return failure();
  for (auto &[half, path] : files)
    if (std::error_code error = half->moveTo(path))
      return diags.error("cannot write '" + path + "': " + error.message());
  return success();
}

} // namespace shardonnx
