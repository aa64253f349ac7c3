// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `--freeze`: parameters that the user does not want trained.

#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Dialect/NN/IR/ParameterReport.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
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

  LogicalResult freeze(const std::string &pattern) {
    llvm::Regex regex("^(" + pattern + ")$");
    std::string why;
    if (!regex.isValid(why))
      return getOperation().emitError()
             << "--freeze: '" << pattern
             << "' is not a regular expression: " << why;
    bool matched = false;
    for (auto parameter : getOperation().getOps<nn::ParameterOp>()) {
      if (!nn::matchesName(regex, parameter))
        continue;
      matched = true;
      parameter.setTrainable(false);
      nn::noteUntrained(getOperation(), parameter.getSymName(),
                        "--freeze=" + pattern, /*asked=*/true);
    }
    if (!matched)
      return getOperation().emitError()
             << "--freeze: no parameter's whole name matches '" << pattern
             << "'; shardonnx inspect lists the names";
    return success();
  }

  void runOnOperation() override {
    for (const std::string &pattern : regexes)
      if (failed(freeze(pattern)))
        return signalPassFailure();
  }
};

} // namespace
