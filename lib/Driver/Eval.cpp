// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `shardonnx eval`: the plans that are tried in turn, and what is said of them.

#include "shardonnx/Driver/Eval.h"

#include "EvalProgram.h"
#include "shardonnx/Driver/Options.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;

namespace shardonnx {
namespace {

class Evaluation {
public:
  explicit Evaluation(const EvalOptions &options) : options(options) {}
  LogicalResult run();

private:
  LogicalResult readInputs();
  LogicalResult tryPlan(EvalPlan plan);
  LogicalResult finish(EvalProgram &program);
  void report(const EvalProgram &program);

  const EvalOptions &options;
  Diagnostics diags;
  std::vector<EvalInput> inputs;
  std::string refusal; // of the last plan that would compile the graph
  bool final = false, integerInputs = true;
};

} // namespace

LogicalResult Evaluation::readInputs() {
  llvm::StringSet<> names;
  for (const std::string &argument : options.inputs) {
    FailureOr<EvalInput> input = readEvalInput(argument, diags);
    if (failed(input))
      return failure();
    if (!names.insert(input->name).second)
      return diags.error("--input: '" + input->name + "' is given twice");
    inputs.push_back(std::move(*input));
  }
  return success();
}

/// Two arrays of one name would be one file.
static LogicalResult checkNames(ArrayRef<EvalOutput> outputs,
                                Diagnostics &diags) {
  llvm::StringSet<> names;
  for (const EvalOutput &output : outputs)
    if (!names.insert(output.fileName).second)
      return diags.error("two arrays would be written to '" + output.fileName +
                         "'; rename the graph's outputs");
  return success();
}

void Evaluation::report(const EvalProgram &program) {
  unsigned compiled = 0, folded = 0, gradients = 0;
  for (const EvalOutput &output : program.getOutputs())
    ++(output.gradient ? gradients : output.value ? folded : compiled);
  llvm::outs() << compiled << " outputs compiled, " << folded << " folded";
  if (options.gradients)
    llvm::outs() << ", " << gradients << " gradients";
  llvm::outs() << '\n';
  std::string list;
  for (const std::string &name : program.getConstants())
    list += (list.empty() ? "'" : ", '") + name + "'";
  if (!list.empty())
    diags.warning("'" + options.model + "': no gradient of " + list +
                  ": the graph is compiled for their values");
}

LogicalResult Evaluation::finish(EvalProgram &program) {
  if (failed(checkNames(program.getOutputs(), diags)) || failed(program.run()))
    return failure();
  report(program);
  return success();
}

/// Failure of a plan is not the end: what it said is kept.
LogicalResult Evaluation::tryPlan(EvalPlan plan) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  Diagnostics captured("shardonnx", stream);
  EvalProgram program(options, inputs, plan, captured);
  bool compiled = succeeded(program.compile());
  final = program.isFinal();
  integerInputs = program.hasIntegerInputs();
  if (compiled) {
    final = true;
    if (succeeded(finish(program)))
      return success();
  }
  if (refusal.empty() || plan.known != Known::Everything)
    refusal = text;
  return failure();
}

LogicalResult Evaluation::run() {
  if (failed(readInputs()))
    return failure();
  if (std::error_code error =
          llvm::sys::fs::create_directories(options.outputDir))
    return diags.error("--output-dir: cannot create '" + options.outputDir +
                       "': " + error.message());
  SmallVector<EvalPlan> plans;
  for (Known known : {Known::Nothing, Known::Integers}) {
    if (options.gradients)
      plans.push_back({known, /*allWeights=*/true});
    plans.push_back({known, /*allWeights=*/false});
  }
  if (!options.gradients)
    plans.push_back({Known::Everything, /*allWeights=*/false});
  for (EvalPlan plan : plans) {
    if (final || (plan.known == Known::Integers && !integerInputs))
      continue;
    if (succeeded(tryPlan(plan)))
      return success();
  }
  llvm::errs() << refusal;
  return failure();
}

int runEval(const EvalOptions &options) {
  return succeeded(Evaluation(options).run()) ? kExitDone : kExitInput;
}

} // namespace shardonnx
