// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See TensorPlan.h.

#include "TensorPlan.h"
#include "shardonnx/Dialect/NN/IR/ParameterReport.h"
#include "shardonnx/Support/InputFile.h"
#include "shardonnx/Support/NamePattern.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Regex.h"

#include <map>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

namespace {

/// Reads a plan, one pattern after the other.
class Reader {
public:
  Reader(ModuleOp module, StringRef path) : module(module), path(path) {}

  FailureOr<TensorPlan> read();

private:
  InFlightDiagnostic error() {
    return module.emitError("--tensor-plan: '") << path << "': ";
  }
  FailureOr<llvm::json::Object> parse();
  LogicalResult apply(const std::string &pattern,
                      const llvm::json::Value &value);

  ModuleOp module;
  StringRef path;
  TensorPlan plan;
  llvm::StringMap<std::string> patterns; // of whose plan it is
};

} // namespace

FailureOr<llvm::json::Object> Reader::parse() {
  InputBytes text = readInputFile(path, /*isText=*/true);
  if (!text)
    return error() << "cannot be read: " << text.getError().message();
  llvm::Expected<llvm::json::Value> json =
      llvm::json::parse((*text)->getBuffer());
  if (!json)
    return error() << "is no JSON: " << llvm::toString(json.takeError());
  llvm::json::Object *object = json->getAsObject();
  if (!object)
    return error() << "is not an object of REGEX: STYLE";
  return std::move(*object);
}

LogicalResult Reader::apply(const std::string &pattern,
                            const llvm::json::Value &value) {
  std::optional<StringRef> word = value.getAsString();
  auto style = word ? parseSpelling<ParallelStyle>(word->str()) : std::nullopt;
  if (!style)
    return error() << "the style of '" << pattern << "' is not "
                   << describeWords(spellAll<ParallelStyle>());
  llvm::Regex regex = wholeName(pattern);
  std::string why;
  if (!regex.isValid(why))
    return error() << "'" << pattern
                   << "' is not a regular expression: " << why;
  bool matched = false;
  for (auto parameter : module.getOps<ParameterOp>()) {
    if (!matchesName(regex, parameter))
      continue;
    matched = true;
    StringRef name = parameter.getSymName();
    auto [entry, isNew] = plan.try_emplace(name, *style);
    if (!isNew && entry->second != *style)
      return error() << "parameter '" << name << "' is " << spell(entry->second)
                     << " by '" << patterns[name] << "' and " << *word
                     << " by '" << pattern << "'; leave one out";
    patterns[name] = pattern;
  }
  if (matched)
    return success();
  return error() << "no parameter's whole name matches '" << pattern
                 << "'; shardonnx inspect lists the names";
}

FailureOr<TensorPlan> Reader::read() {
  FailureOr<llvm::json::Object> object = parse();
  if (failed(object))
    return failure();
  std::map<std::string, const llvm::json::Value *> sorted;
  for (const auto &[pattern, value] : *object)
    sorted[pattern.str()] = &value;
  for (const auto &[pattern, value] : sorted)
    if (failed(apply(pattern, *value)))
      return failure();
  return std::move(plan);
}

FailureOr<TensorPlan> nn::readTensorPlan(ModuleOp module, StringRef path) {
  return Reader(module, path).read();
}
