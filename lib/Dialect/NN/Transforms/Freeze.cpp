// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `--freeze` and `--trainable`: what the user does not want trained.

#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Dialect/NN/IR/Adapters.h"
#include "shardonnx/Dialect/NN/IR/ParameterReport.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/Support/NamePattern.h"
#include "shardonnx/Support/UsageError.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace shardonnx;

namespace shardonnx::nn {
#define GEN_PASS_DEF_FREEZEPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

namespace {

struct FreezePass : nn::impl::FreezePassBase<FreezePass> {
  using FreezePassBase::FreezePassBase;

  FailureOr<llvm::Regex> compile(StringRef option, const std::string &pattern) {
    llvm::Regex regex = wholeName(pattern);
    std::string why;
    if (regex.isValid(why))
      return regex;
    return emitUsageError(getOperation())
           << option << ": '" << pattern
           << "' is not a regular expression: " << why;
  }

  LogicalResult refuseUnmatched(StringRef option, const std::string &pattern) {
    return emitUsageError(getOperation())
           << option << ": no parameter's whole name matches '" << pattern
           << "'; shardonnx inspect lists the names";
  }

  LogicalResult freeze(const std::string &pattern) {
    FailureOr<llvm::Regex> regex = compile("--freeze", pattern);
    if (failed(regex))
      return failure();
    std::string reason = "--freeze=" + pattern;
    // What the exporter has taken out of the graph may be named as well.
    bool matched = nn::acceptUntrained(
        getOperation(), [&](StringRef name) { return regex->match(name); },
        reason, /*written=*/true);
    for (auto parameter : getOperation().getOps<nn::ParameterOp>()) {
      // Of the model's own: an adapter is there to be trained.
      if (parameter->hasAttr(nn::kDrawAttr) ||
          !nn::matchesName(*regex, parameter))
        continue;
      matched = true;
      parameter.setTrainable(false);
      nn::noteUntrained(getOperation(), parameter.getSymName(), reason,
                        /*asked=*/true);
    }
    return matched ? success() : refuseUnmatched("--freeze", pattern);
  }

  /// Freezes what no pattern of `trainable` matches.
  LogicalResult freezeOthers() {
    std::vector<llvm::Regex> kept;
    for (const std::string &pattern : trainable) {
      FailureOr<llvm::Regex> regex = compile("--trainable", pattern);
      if (failed(regex))
        return failure();
      if (llvm::none_of(getOperation().getOps<nn::ParameterOp>(),
                        [&](nn::ParameterOp parameter) {
                          return nn::matchesName(*regex, parameter);
                        }))
        return refuseUnmatched("--trainable", pattern);
      kept.push_back(std::move(*regex));
    }
    constexpr StringRef reason = "not in --trainable";
    nn::acceptUntrained(
        getOperation(),
        [&](StringRef name) {
          return llvm::none_of(
              kept, [&](const auto &regex) { return regex.match(name); });
        },
        reason, /*written=*/false);
    for (auto parameter : getOperation().getOps<nn::ParameterOp>()) {
      if (!parameter.getTrainable() || parameter->hasAttr(nn::kDrawAttr) ||
          llvm::any_of(kept, [&](const llvm::Regex &regex) {
            return nn::matchesName(regex, parameter);
          }))
        continue;
      parameter.setTrainable(false);
      nn::noteUntrained(getOperation(), parameter.getSymName(), reason,
                        /*asked=*/true);
    }
    return success();
  }

  void runOnOperation() override {
    for (const std::string &pattern : regexes)
      if (failed(freeze(pattern)))
        return signalPassFailure();
    if (!trainable.empty() && failed(freezeOthers()))
      signalPassFailure();
  }
};

} // namespace
