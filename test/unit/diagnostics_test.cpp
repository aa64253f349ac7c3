// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a user reads of what MLIR says.

#include "shardonnx/Support/Diagnostics.h"
#include "shardonnx/Support/Origin.h"
#include "shardonnx/Support/UsageError.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace shardonnx;

namespace {

class DiagnosticsTest : public testing::Test {
protected:
  DiagnosticsTest()
      : context(MLIRContext::Threading::DISABLED),
        handler(diagnostics.capture(&context, "m.onnx")),
        module(
            ModuleOp::create(makeOriginLoc(&context, "node_7", "Gemm", ""))) {}

  std::string text;
  llvm::raw_string_ostream out{text};
  Diagnostics diagnostics{"shardonnx", out};
  MLIRContext context;
  std::unique_ptr<ScopedDiagnosticHandler> handler;
  OwningOpRef<ModuleOp> module;
};

TEST_F(DiagnosticsTest, WhatAPassRefusesIsOneLineThatNamesTheNode) {
  module->emitError("its bias\ndoes not fit").attachNote() << "it is [3]";
  EXPECT_EQ(text, "shardonnx: error: m.onnx: node 'node_7' (Gemm): its bias "
                  "does not fit; it is [3]\n");
}

TEST_F(DiagnosticsTest, WhatAVerifierRefusesIsAFaultOfTheCompiler) {
  {
    Diagnostics::Hold hold(diagnostics);
    // A shape rule, then the verifier that asked it: one fault.
    emitError(module->getLoc(), "operand shapes do not broadcast");
    module->emitOpError("failed to infer returned types");
    EXPECT_EQ(text, "");
  }
  EXPECT_EQ(text, "shardonnx: error: m.onnx: node 'node_7' (Gemm): "
                  "'builtin.module' op failed to infer returned types; this is "
                  "a fault of the compiler, not of the model: please report "
                  "it, with the model\n");
  EXPECT_EQ(diagnostics.errors(), 2U);
}

TEST_F(DiagnosticsTest, WhatOnlyTheCommandLineMendsIsItsFault) {
  emitUsageError(*module) << "--unit=x matches no module";
  EXPECT_EQ(text, "shardonnx: error: m.onnx: node 'node_7' (Gemm): --unit=x "
                  "matches no module\n");
  EXPECT_TRUE(diagnostics.isUsage());
  module->emitError("its bias does not fit");
  EXPECT_FALSE(diagnostics.isUsage());
}

TEST_F(DiagnosticsTest, ErrorsThatAreHeldAreAllPrinted) {
  {
    Diagnostics::Hold hold(diagnostics);
    (void)diagnostics.error("one");
    (void)diagnostics.error("two");
  }
  EXPECT_EQ(text, "shardonnx: error: one\nshardonnx: error: two\n");
}

} // namespace
