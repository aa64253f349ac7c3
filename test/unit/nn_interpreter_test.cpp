// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The reference interpreter as constants are folded with it: elements rounded
// or wrapped to their type, NaN, what it refuses, and that large masks cost
// little.

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "shardonnx/Dialect/NN/Interpreter/Interpreter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace mlir;
using namespace shardonnx::nn;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class InterpreterTest : public ::testing::Test {
protected:
  void SetUp() override { context.loadDialect<NNDialect, func::FuncDialect>(); }

  /// The results of `func.func @f(ARGUMENTS) { BODY }`.
  Interpreter::Results run(const std::string &arguments,
                           const std::string &results, const std::string &body,
                           ArrayRef<HostTensor> values = {}) {
    module =
        parseSourceString<ModuleOp>("func.func @f(" + arguments + ") -> (" +
                                        results + ") {\n" + body + "\n}",
                                    &context);
    if (!module)
      return failure();
    return interpreter.run((*module->getOps<func::FuncOp>().begin()).getBody(),
                           values);
  }

  HostTensor floats(ArrayRef<double> values, Type type) {
    std::vector<Scalar> elements;
    for (double value : values)
      elements.push_back(ofFloat(value));
    return HostTensor::dense({int64_t(values.size())}, type, elements);
  }
  HostTensor ints(ArrayRef<int64_t> values, Type type) {
    return HostTensor::ints({int64_t(values.size())}, values, type);
  }

  MLIRContext context;
  Builder b{&context};
  OwningOpRef<ModuleOp> module;
  Interpreter interpreter;
};

TEST_F(InterpreterTest, FloatsAreRoundedAfterEachOp) {
  const std::string body = "%s = nn.add %a, %b : (tensor<1xbf16>, "
                           "tensor<1xbf16>) -> tensor<1xbf16>\n"
                           "%d = nn.sub %s, %a : (tensor<1xbf16>, "
                           "tensor<1xbf16>) -> tensor<1xbf16>\n"
                           "return %d : tensor<1xbf16>";
  const std::string arguments = "%a: tensor<1xbf16>, %b: tensor<1xbf16>";
  SmallVector<HostTensor> values = {floats({256}, b.getBF16Type()),
                                    floats({1}, b.getBF16Type())};
  // 257 has nine bits, one more than bf16 keeps.
  auto rounded = run(arguments, "tensor<1xbf16>", body, values);
  ASSERT_TRUE(succeeded(rounded));
  EXPECT_EQ(rounded->front().front().f, 0);
  interpreter = Interpreter({Rounding::None});
  auto exact = run(arguments, "tensor<1xbf16>", body, values);
  ASSERT_TRUE(succeeded(exact));
  EXPECT_EQ(exact->front().front().f, 1);
}

TEST_F(InterpreterTest, IntegersWrapAndLargeOnesAreExact) {
  int64_t most = std::numeric_limits<int64_t>::max();
  auto sum = run("%a: tensor<2xi64>", "tensor<2xi64>",
                 "%s = nn.add %a, %a : (tensor<2xi64>, tensor<2xi64>) -> "
                 "tensor<2xi64>\nreturn %s : tensor<2xi64>",
                 {ints({most, (int64_t(1) << 53) + 1}, b.getI64Type())});
  ASSERT_TRUE(succeeded(sum));
  EXPECT_EQ(sum->front().flattenInts(),
            SmallVector<int64_t>({-2, (int64_t(1) << 54) + 2}));
  auto narrow = run("%a: tensor<2xi64>", "tensor<2xi32>",
                    "%s = nn.cast %a : tensor<2xi64> -> tensor<2xi32>\n"
                    "return %s : tensor<2xi32>",
                    {ints({int64_t(1) << 31, -7}, b.getI64Type())});
  ASSERT_TRUE(succeeded(narrow));
  EXPECT_EQ(narrow->front().flattenInts(),
            SmallVector<int64_t>({-(int64_t(1) << 31), -7}));
}

TEST_F(InterpreterTest, WhatHasNoQuotientIsZero) {
  int64_t least = std::numeric_limits<int64_t>::min();
  auto quotient = run(
      "%a: tensor<3xi64>, %b: tensor<3xi64>", "tensor<3xi64>, tensor<3xi64>",
      "%q = nn.quotient %a, %b : (tensor<3xi64>, tensor<3xi64>) -> "
      "tensor<3xi64>\n"
      "%r = nn.remainder %a, %b {floor} : (tensor<3xi64>, tensor<3xi64>) -> "
      "tensor<3xi64>\n"
      "return %q, %r : tensor<3xi64>, tensor<3xi64>",
      {ints({7, least, -7}, b.getI64Type()), ints({0, -1, 2}, b.getI64Type())});
  ASSERT_TRUE(succeeded(quotient));
  EXPECT_EQ((*quotient)[0].flattenInts(), SmallVector<int64_t>({0, least, -3}));
  EXPECT_EQ((*quotient)[1].flattenInts(), SmallVector<int64_t>({0, 0, 1}));
}

TEST_F(InterpreterTest, NaNWinsAMaximumAndNoComparison) {
  HostTensor x = floats({1, kNaN, 3}, b.getF32Type());
  auto results =
      run("%a: tensor<3xf32>",
          "tensor<f32>, tensor<3xf32>, tensor<3xi1>, tensor<3xi1>",
          "%m = nn.reduce_max %a {axes = array<i64: 0>} : (tensor<3xf32>) -> "
          "tensor<f32>\n"
          "%r = nn.relu %a : (tensor<3xf32>) -> tensor<3xf32>\n"
          "%e = nn.compare ge %a, %a : (tensor<3xf32>, tensor<3xf32>) -> "
          "tensor<3xi1>\n"
          "%n = nn.compare ne %a, %a : (tensor<3xf32>, tensor<3xf32>) -> "
          "tensor<3xi1>\n"
          "return %m, %r, %e, %n : tensor<f32>, tensor<3xf32>, tensor<3xi1>, "
          "tensor<3xi1>",
          {x});
  ASSERT_TRUE(succeeded(results));
  EXPECT_TRUE(std::isnan((*results)[0].front().f));
  EXPECT_TRUE(std::isnan((*results)[1].at({1}).f));
  EXPECT_EQ((*results)[2].flattenInts(), SmallVector<int64_t>({1, 0, 1}));
  EXPECT_EQ((*results)[3].flattenInts(), SmallVector<int64_t>({0, 1, 0}));
}

// inf - inf, as the kernels and PyTorch have it.
TEST_F(InterpreterTest, SoftmaxOfAnInfiniteRowIsNaN) {
  for (double special : {kInfinity, kNaN}) {
    auto results =
        run("%a: tensor<3xf32>", "tensor<3xf32>, tensor<3xf32>",
            "%s = nn.softmax %a : (tensor<3xf32>) -> tensor<3xf32>\n"
            "%l = nn.log_softmax %a : (tensor<3xf32>) -> tensor<3xf32>\n"
            "return %s, %l : tensor<3xf32>, tensor<3xf32>",
            {floats({1, special, 3}, b.getF32Type())});
    ASSERT_TRUE(succeeded(results));
    for (const HostTensor &result : *results)
      for (Scalar x : result.flatten())
        EXPECT_TRUE(std::isnan(x.f));
  }
}

TEST_F(InterpreterTest, AttentionToNothingIsZerosOrNaN) {
  HostTensor ones = HostTensor::splat({1, 1, 1, 2}, b.getF32Type(), ofFloat(1));
  HostTensor hidden = HostTensor::splat({1, 1, 1, 1}, b.getI1Type(), ofInt(0));
  for (bool unguarded : {false, true}) {
    auto results = run(
        "%q: tensor<1x1x1x2xf32>, %m: tensor<1x1x1x1xi1>",
        "tensor<1x1x1x2xf32>, tensor<1x1x1x2xf32>",
        std::string("%r, %l = nn.attention %q, %q, %q, %m {scale = 1.0 : f32") +
            (unguarded ? ", unguarded" : "") +
            "} : (tensor<1x1x1x2xf32>, tensor<1x1x1x2xf32>, "
            "tensor<1x1x1x2xf32>, tensor<1x1x1x1xi1>) -> "
            "(tensor<1x1x1x2xf32>, tensor<1x1x1xf32>)\n"
            "%dq, %dk, %dv = nn.attention_grad %q, %q, %q, %m, %r, %l, %q "
            "{scale = 1.0 : f32} : (tensor<1x1x1x2xf32>, tensor<1x1x1x2xf32>, "
            "tensor<1x1x1x2xf32>, tensor<1x1x1x1xi1>, tensor<1x1x1x2xf32>, "
            "tensor<1x1x1xf32>, tensor<1x1x1x2xf32>) -> (tensor<1x1x1x2xf32>, "
            "tensor<1x1x1x2xf32>, tensor<1x1x1x2xf32>)\n"
            "return %r, %dv : tensor<1x1x1x2xf32>, tensor<1x1x1x2xf32>",
        {ones, hidden});
    ASSERT_TRUE(succeeded(results));
    for (const HostTensor &result : *results) {
      EXPECT_EQ(std::isnan(result.front().f), unguarded);
      EXPECT_EQ(result.front().f == 0, !unguarded);
    }
  }
}

TEST_F(InterpreterTest, NothingIsTheLeastMaximum) {
  HostTensor hidden = floats({-kInfinity, -kInfinity}, b.getF32Type());
  auto sum = run("%a: tensor<2xf32>", "tensor<1xf32>",
                 "%s = nn.log_sum_exp %a : (tensor<2xf32>) -> tensor<1xf32>\n"
                 "return %s : tensor<1xf32>",
                 {hidden});
  ASSERT_TRUE(succeeded(sum));
  EXPECT_EQ(sum->front().front().f, -kInfinity);
}

// A causal mask of 2²⁰ × 2²⁰ elements, by its diagonals.
TEST_F(InterpreterTest, MasksOfAnySizeCostTheirDiagonals) {
  auto mask =
      run("", "tensor<1048576x1048576xi1>",
          "%r = nn.iota {axis = 0 : i64} : () -> tensor<1048576x1xi64>\n"
          "%c = nn.iota {axis = 1 : i64} : () -> tensor<1x1048576xi64>\n"
          "%m = nn.compare le %c, %r : (tensor<1x1048576xi64>, "
          "tensor<1048576x1xi64>) -> tensor<1048576x1048576xi1>\n"
          "return %m : tensor<1048576x1048576xi1>");
  ASSERT_TRUE(succeeded(mask)) << interpreter.getReason().str();
  EXPECT_EQ(mask->front().at({5, 5}).i, 1);
  EXPECT_EQ(mask->front().at({5, 6}).i, 0);
  EXPECT_EQ(mask->front().at({1048575, 1048575}).i, 1);
}

TEST_F(InterpreterTest, WhatIsTooLargeOrOutsideIsRefusedWithAReason) {
  EXPECT_TRUE(failed(
      run("%a: tensor<1048576xf32>", "tensor<1048576x1048576xf32>",
          "%c = nn.reshape %a : tensor<1048576xf32> -> tensor<1048576x1xf32>\n"
          "%r = nn.reshape %a : tensor<1048576xf32> -> tensor<1x1048576xf32>\n"
          "%p = nn.matmul %c, %r : (tensor<1048576x1xf32>, "
          "tensor<1x1048576xf32>) -> tensor<1048576x1048576xf32>\n"
          "return %p : tensor<1048576x1048576xf32>",
          {HostTensor::splat({1 << 20}, b.getF32Type(), ofFloat(1))})));
  EXPECT_EQ(interpreter.getReason(),
            "nn.matmul: it is too large to be computed");
  EXPECT_TRUE(failed(
      run("%t: tensor<2x1xf32>, %i: tensor<1xi64>", "tensor<1x1xf32>",
          "%e = nn.embedding %t, %i : (tensor<2x1xf32>, tensor<1xi64>) -> "
          "tensor<1x1xf32>\nreturn %e : tensor<1x1xf32>",
          {HostTensor::splat({2, 1}, b.getF32Type(), ofFloat(0)),
           ints({2}, b.getI64Type())})));
  EXPECT_EQ(interpreter.getReason(),
            "nn.embedding: an index is outside of its axis");
}

} // namespace
