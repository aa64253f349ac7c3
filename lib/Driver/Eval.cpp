// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `shardonnx eval`: the plans that are tried in turn, and what is said of them.

#include "shardonnx/Driver/Eval.h"

#include "../../runtime/support/File.h"
#include "EvalProgram.h"
#include "InspectReport.h"
#include "shardonnx/Driver/Options.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace shardonnx {
namespace {

class Evaluation {
public:
  explicit Evaluation(const EvalOptions &options) : options(options) {}
  LogicalResult run();
  /// Of a run that has failed.
  int getExitCode() const {
    return isUsage || diags.isUsage() ? kExitUsage : kExitInput;
  }

private:
  LogicalResult readInputs();
  SmallVector<EvalPlan> plans() const;
  LogicalResult runPlans();
  LogicalResult tryPlan(EvalPlan plan, bool &wasWrong);
  LogicalResult finish(EvalProgram &program, EvalPlan plan);
  void addGradients(ArrayRef<std::string> names, EvalPlan plan);
  void count(const EvalProgram &program);

  const EvalOptions &options;
  Diagnostics diags;
  std::vector<EvalInput> inputs;
  std::string refusal; // of the last plan that would compile the graph
  bool integerInputs = true;
  unsigned compiled = 0, folded = 0, gradients = 0;
  bool isUsage = false; // the refusal is of the command line
};

/// Collects what is said of a plan that may not be the one.
struct Attempt {
  std::string text;
  llvm::raw_string_ostream stream{text};
  Diagnostics diagnostics{"shardonnx", stream};

  /// Its errors: warnings say what training would want to know.
  std::string errors() const {
    std::string result;
    SmallVector<StringRef> lines;
    StringRef(text).split(lines, '\n', -1, /*KeepEmpty=*/false);
    for (StringRef line : lines)
      if (!line.starts_with("shardonnx: warning:"))
        result += line.str() + "\n";
    return result;
  }
};
} // namespace

LogicalResult Evaluation::readInputs() {
  llvm::StringSet<> names;
  for (const std::string &argument : options.inputs) {
    FailureOr<EvalInput> input = readEvalInput(argument, diags);
    if (failed(input))
      return failure();
    if (!names.insert(input->name).second)
      return diags.usageError("--input: '" + input->name +
                              "' is given twice; leave one out");
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

void Evaluation::count(const EvalProgram &program) {
  for (const EvalOutput &output : program.getOutputs())
    if (output.wanted)
      ++(output.gradient ? gradients : output.value ? folded : compiled);
}

static std::string join(ArrayRef<std::string> names) {
  std::string list;
  for (const std::string &name : names)
    list += (list.empty() ? "'" : ", '") + name + "'";
  return list;
}

/// The gradients of what the first program took for constants, as it would be
/// trained, come from a program of their own.
void Evaluation::addGradients(ArrayRef<std::string> names, EvalPlan plan) {
  plan.allWeights = true;
  Attempt attempt;
  EvalProgram program(options, inputs, plan, attempt.diagnostics);
  if (succeeded(program.compile())) {
    program.keepGradients(names);
    if (succeeded(program.run()))
      return count(program);
  }
  diags.warning("'" + options.model + "': no gradient of " + join(names) +
                ": the graph is compiled for their values");
}

LogicalResult Evaluation::finish(EvalProgram &program, EvalPlan plan) {
  if (failed(checkNames(program.getOutputs(), diags)) || failed(program.run()))
    return failure();
  count(program);
  if (!program.getConstants().empty())
    addGradients(program.getConstants(), plan);
  llvm::outs() << compiled << " outputs compiled, " << folded << " folded";
  if (options.gradients)
    llvm::outs() << ", " << gradients << " gradients";
  llvm::outs() << '\n';
  return success();
}

/// What a plan that fails has said is kept; `wasWrong` where the command line's
/// inputs are at fault, or the machine, so that no other plan can do better.
LogicalResult Evaluation::tryPlan(EvalPlan plan, bool &wasWrong) {
  Attempt attempt;
  EvalProgram program(options, inputs, plan, attempt.diagnostics);
  bool compiled = succeeded(program.compile());
  wasWrong = compiled || program.isFinal();
  integerInputs = program.hasIntegerInputs();
  if (compiled && succeeded(finish(program, plan)))
    return success();
  if (refusal.empty() || plan.known != Known::Everything) {
    refusal = attempt.errors();
    isUsage = attempt.diagnostics.isUsage();
  }
  return failure();
}

SmallVector<EvalPlan> Evaluation::plans() const {
  SmallVector<EvalPlan> plans;
  for (Known known : {Known::Nothing, Known::Integers})
    plans.push_back({known, /*allWeights=*/false});
  if (!options.gradients)
    plans.push_back({Known::Everything, /*allWeights=*/false});
  return plans;
}

LogicalResult Evaluation::run() {
  if (failed(readInputs()))
    return failure();
  rt::MadeFolders folder(options.outputDir);
  if (folder.error())
    return diags.error("--output-dir: cannot create '" + options.outputDir +
                       "': " + folder.error().message());
  if (succeeded(runPlans()))
    return success();
  llvm::errs() << refusal;
  return failure();
}

LogicalResult Evaluation::runPlans() {
  bool wasWrong = false;
  for (EvalPlan plan : plans()) {
    if (plan.known == Known::Integers && !integerInputs)
      continue;
    if (succeeded(tryPlan(plan, wasWrong)))
      return success();
    if (wasWrong)
      break;
  }
  return failure();
}

int runEval(const EvalOptions &options) {
  Evaluation evaluation(options);
  if (failed(evaluation.run()))
    return evaluation.getExitCode();
  Diagnostics diagnostics;
  return finishOutput(diagnostics);
}

} // namespace shardonnx
