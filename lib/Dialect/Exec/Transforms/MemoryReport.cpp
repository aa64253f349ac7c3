// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What --emit=memory and exec-print-plan print: the spaces, and what stands at
// their peaks.

#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Dialect/Exec/Transforms/Describe.h"
#include "shardonnx/Dialect/Exec/Transforms/Passes.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

namespace shardonnx::exec {
#define GEN_PASS_DEF_PRINTPLANPASS
#include "shardonnx/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace shardonnx::exec

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

void exec::printMemoryPlan(ModuleOp module, raw_ostream &os) {
  for (const SpaceReport &report : describeSpaces(module)) {
    double ratio =
        report.lowerBound ? double(report.bytes) / report.lowerBound : 1.0;
    os << stringifySpace(report.space) << ": " << report.bytes
       << " bytes, lower bound " << report.lowerBound
       << llvm::format(" (%.3f)", ratio) << '\n';
    if (!report.peakAt.empty())
      os << "  at the peak, in " << report.peakAt << ":\n";
    for (const LiveBuffer &buffer : report.live)
      os << llvm::format("  %12lld bytes at %12lld  ", (long long)buffer.bytes,
                         (long long)buffer.offset)
         << buffer.name << '\n';
  }
}

namespace {

struct PrintPlanPass : public exec::impl::PrintPlanPassBase<PrintPlanPass> {
  using PrintPlanPassBase::PrintPlanPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (json)
      llvm::outs() << llvm::formatv(
          "{0:2}\n", llvm::json::Value(llvm::json::Object{
                         {"spaces", spacesToJson(module)},
                         {"functions", functionsToJson(module)}}));
    else
      printMemoryPlan(module, llvm::outs());
    markAllAnalysesPreserved();
  }
};

} // namespace
