// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What finite differences cannot see: gradients where a function has a kink
// (PyTorch's choice), and FLOPs by PaLM's rule.

#include "mlir/Parser/Parser.h"
#include "nn_reference.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::test;

namespace {

class NNSemanticsTest : public ::testing::Test {
protected:
  void SetUp() override {
    context.loadDialect<nn::NNDialect, func::FuncDialect>();
  }

  /// Parses `func.func @f(ARGUMENTS) { %r… = OP; return }`.
  Operation *parse(const std::string &arguments, const std::string &op) {
    std::string text =
        "func.func @f(" + arguments + ") {\n" + op + "\nreturn\n}";
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    function = *module->getOps<func::FuncOp>().begin();
    return &function.getBody().front().front();
  }

  /// The gradient of an operand for a cotangent of ones.
  std::vector<double> gradient(Operation *op, std::vector<Tensor> arguments,
                               unsigned operand = 0) {
    Operation *terminator = function.getBody().front().getTerminator();
    Type type = op->getResult(0).getType();
    EXPECT_TRUE(succeeded(function.insertArgument(
        function.getNumArguments(), type, {}, function.getLoc())));
    OpBuilder builder(terminator);
    llvm::SmallBitVector needed(op->getNumOperands());
    needed.set(operand);
    SmallVector<Value> grads(op->getNumOperands());
    EXPECT_TRUE(succeeded(cast<nn::DifferentiableOpInterface>(op).buildVjp(
        builder, {function.getArguments().back()}, needed, grads)));
    terminator->setOperands({grads[operand]});
    arguments.push_back(
        Tensor(cast<RankedTensorType>(type).getShape(), /*fill=*/1));
    Evaluator evaluator;
    FailureOr<std::vector<Tensor>> result = evaluator.run(function, arguments);
    EXPECT_TRUE(succeeded(result));
    return result->front().data;
  }

  /// All elements of an op's results, one result behind the other.
  std::vector<double> results(Operation *op, ArrayRef<Tensor> arguments) {
    FailureOr<std::vector<Tensor>> tensors = Evaluator().run(op, arguments);
    EXPECT_TRUE(succeeded(tensors));
    std::vector<double> all;
    for (const Tensor &tensor : *tensors)
      all.insert(all.end(), tensor.data.begin(), tensor.data.end());
    return all;
  }

  int64_t flops(const std::string &arguments, const std::string &op) {
    return cast<nn::FlopsOpInterface>(parse(arguments, op)).getFlops();
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
};

Tensor shaped(ArrayRef<int64_t> shape, std::vector<double> data) {
  Tensor tensor(shape);
  EXPECT_EQ(tensor.data.size(), data.size());
  tensor.data = std::move(data);
  return tensor;
}

Tensor vector(std::vector<double> data) {
  return shaped({static_cast<int64_t>(data.size())}, std::move(data));
}

using Doubles = std::vector<double>;

TEST_F(NNSemanticsTest, ReluAndAbsAreFlatAtZero) {
  const char *argument = "%a: tensor<3xf32>";
  Operation *relu =
      parse(argument, "%r = nn.relu %a : (tensor<3xf32>) -> tensor<3xf32>");
  EXPECT_EQ(gradient(relu, {vector({-1, 0, 1})}), Doubles({0, 0, 1}));
  Operation *abs =
      parse(argument, "%r = nn.abs %a : (tensor<3xf32>) -> tensor<3xf32>");
  EXPECT_EQ(gradient(abs, {vector({-1, 0, 1})}), Doubles({-1, 0, 1}));
}

TEST_F(NNSemanticsTest, TiesShareTheGradient) {
  Operation *max = parse(
      "%a: tensor<3xf32>, %b: tensor<3xf32>",
      "%r = nn.max %a, %b : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>");
  EXPECT_EQ(gradient(max, {vector({1, 2, 3}), vector({2, 2, 2})}),
            Doubles({0, 0.5, 1}));
  Operation *reduce =
      parse("%a: tensor<4xf32>", "%r = nn.reduce_max %a {axes = array<i64: 0>} "
                                 ": (tensor<4xf32>) -> tensor<f32>");
  EXPECT_EQ(gradient(reduce, {vector({5, 1, 5, 0})}),
            Doubles({0.5, 0, 0.5, 0}));
}

// A NaN neither loses nor ties, and is not flat.
TEST_F(NNSemanticsTest, NaNHandsItsGradientOn) {
  for (const char *name : {"max", "min"})
    for (unsigned operand : {0, 1}) {
      Operation *op = parse("%a: tensor<2xf32>, %b: tensor<2xf32>",
                            std::string("%r = nn.") + name +
                                " %a, %b : (tensor<2xf32>, tensor<2xf32>) -> "
                                "tensor<2xf32>");
      EXPECT_EQ(gradient(op, {vector({NAN, 1}), vector({1, NAN})}, operand),
                Doubles({1, 1}));
    }
  Operation *relu = parse("%a: tensor<2xf32>", "%r = nn.relu %a : "
                                               "(tensor<2xf32>) -> "
                                               "tensor<2xf32>");
  EXPECT_EQ(gradient(relu, {vector({NAN, -1})}), Doubles({1, 0}));
}

// Where the formula is 0·∞: x^0 by x, 0^e with e ≥ 0 by e.
TEST_F(NNSemanticsTest, PowersWithoutASlope) {
  const char *arguments = "%a: tensor<5xf32>, %b: tensor<5xf32>";
  const char *pow = "%r = nn.pow %a, %b : (tensor<5xf32>, tensor<5xf32>) -> "
                    "tensor<5xf32>";
  Tensor base = vector({0, 0, 2, 0, 3}), exponent = vector({0, 2, 0, 0.5, 1});
  EXPECT_EQ(gradient(parse(arguments, pow), {base, exponent}),
            Doubles({0, 0, 0, INFINITY, 1}));
  EXPECT_EQ(gradient(parse(arguments, pow), {base, exponent}, 1),
            Doubles({0, 0, std::log(2.0), 0, 3 * std::log(3.0)}));
}

// The product of the others, however many of them are zero.
TEST_F(NNSemanticsTest, ProductsThatAreScatteredWithZeros) {
  Operation *scatter = parse(
      "%i: tensor<5x1xi64>, %u: tensor<5xf32>, %d: tensor<3xf32>",
      "%r = nn.scatter mul %i, %u, %d {data_axes = array<i64: -1>, index_axes "
      "= array<i64: 0>, indexed_axes = array<i64: 0>} : (tensor<5x1xi64>, "
      "tensor<5xf32>, tensor<3xf32>) -> tensor<3xf32>");
  Tensor places(ArrayRef<int64_t>{5, 1});
  places.data = {0, 0, 1, 1, 2};
  std::vector<Tensor> arguments = {places, vector({0, 4, 0, 0, 5}),
                                   vector({2, 3, 0})};
  EXPECT_EQ(gradient(scatter, arguments, 1), Doubles({8, 0, 0, 0, 0}));
}

// The least power of two with which 3.5·2^7 is none too small for 900.
TEST_F(NNSemanticsTest, StepsOfWholeTensors) {
  Operation *step = parse("%a: tensor<2x3xf32>, %b: tensor<2x3xf32>",
                          "%r = nn.f8_tensor_step e4m3 %a, %b : "
                          "(tensor<2x3xf32>, tensor<2x3xf32>) -> "
                          "tensor<1xf32>");
  Tensor small = shaped({2, 3}, {17, 1.1, -3, 8, 0, 448}),
         large = shaped({2, 3}, {1, 2, -900, 4, 5, 6}),
         none = shaped({2, 3}, {0, 0, 0, 0, 0, 0});
  EXPECT_EQ(results(step, {small, none}), Doubles({1}));
  EXPECT_EQ(results(step, {small, large}), Doubles({4}));
  EXPECT_EQ(results(step, {none, none}), Doubles({std::exp2(-48)}));
}

// 17 lies between 16 and 18, the even one is 16; 1.1 is nearest to 1.125.
TEST_F(NNSemanticsTest, MatricesOf8BitsLieBothWays) {
  Operation *cast =
      parse("%a: tensor<2x3xf32>, %s: tensor<2x1xf32>",
            "%r:2 = nn.f8_cast_matrix e4m3 %a, %s : (tensor<2x3xf32>, "
            "tensor<2x1xf32>) -> (tensor<2x3xf8E4M3FN>, tensor<3x2xf8E4M3FN>)");
  EXPECT_EQ(results(cast, {shaped({2, 3}, {17, 1.1, -3, 8, 0, 448}),
                           shaped({2, 1}, {1, 2})}),
            Doubles({16, 1.125, -3, 4, 0, 224, 16, 4, 1.125, 0, -3, 224}));
}

TEST_F(NNSemanticsTest, ProductsOf8BitsCountTheirSteps) {
  Tensor lhs = shaped({2, 2}, {1, 2, 3, 4}),
         rhs = shaped({3, 2}, {1, 0, 0, 1, -1, 1});
  auto product = [&](const std::string &step, const std::string &addend) {
    return parse("%a: tensor<2x2xf8E4M3FN>, %b: tensor<3x2xf8E4M3FN>, %s: "
                 "tensor<" +
                     step + ">, %t: tensor<" + (step[0] == '2' ? "3" : "1") +
                     "x1xf32>, %c: " + addend,
                 "%r = nn.f8_product %a, %b, %s, %t, %c : "
                 "(tensor<2x2xf8E4M3FN>, tensor<3x2xf8E4M3FN>, tensor<" +
                     step + ">, tensor<" + (step[0] == '2' ? "3" : "1") +
                     "x1xf32>, " + addend + ") -> tensor<2x3xf32>");
  };
  // [1 2 1; 3 4 1], each row and column times its step.
  EXPECT_EQ(results(product("2x1xf32", "tensor<3xf32>"),
                    {lhs, rhs, shaped({2, 1}, {2, 0.5}),
                     shaped({3, 1}, {1, 4, 8}), vector({100, 200, 300})}),
            Doubles({102, 216, 316, 101.5, 208, 304}));
  EXPECT_EQ(results(product("1x1xf32", "tensor<2x3xf32>"),
                    {lhs, rhs, shaped({1, 1}, {2}), shaped({1, 1}, {0.25}),
                     shaped({2, 3}, {0, 0, 0, 1, 1, 1})}),
            Doubles({0.5, 1, 0.5, 2.5, 3, 1.5}));
}

TEST_F(NNSemanticsTest, FlopsOfProducts) {
  EXPECT_EQ(flops("%a: tensor<4x16xf8E4M3FN>, %b: tensor<5x16xf8E5M2>, %s: "
                  "tensor<1xf32>",
                  "%r = nn.f8_product %a, %b, %s, %s : (tensor<4x16xf8E4M3FN>, "
                  "tensor<5x16xf8E5M2>, tensor<1xf32>, tensor<1xf32>) -> "
                  "tensor<4x5xbf16>"),
            2 * 4 * 16 * 5);
  EXPECT_EQ(flops("%a: tensor<2x3x4xf32>, %b: tensor<4x5xf32>",
                  "%r = nn.matmul %a, %b : (tensor<2x3x4xf32>, "
                  "tensor<4x5xf32>) -> tensor<2x3x5xf32>"),
            2 * 2 * 3 * 4 * 5);
  EXPECT_EQ(flops("%a: tensor<4x3xf32>, %b: tensor<5x4xf32>",
                  "%r = nn.matmul %a, %b {transpose_lhs, transpose_rhs} : "
                  "(tensor<4x3xf32>, tensor<5x4xf32>) -> tensor<3x5xf32>"),
            2 * 3 * 4 * 5);
}

TEST_F(NNSemanticsTest, FlopsOfAttentionDoNotDiscountTheMask) {
  // Per head and query: scores over 6 keys of width 8, values alike.
  EXPECT_EQ(flops("%q: tensor<2x6x4x8xf32>, %k: tensor<2x6x2x8xf32>",
                  "%r:2 = nn.attention %q, %k, %k {causal, scale = 1.0 : f32} "
                  ": (tensor<2x6x4x8xf32>, tensor<2x6x2x8xf32>, "
                  "tensor<2x6x2x8xf32>) -> (tensor<2x6x4x8xf32>, "
                  "tensor<2x4x6xf32>)"),
            2 * (2 * 4 * 6) * 6 * (8 + 8));
}

TEST_F(NNSemanticsTest, FlopsOfAFusedLossAreTheHeadsForwardAndBackward) {
  EXPECT_EQ(flops("%x: tensor<6x4xf32>, %w: tensor<4x9xf32>, %l: tensor<6xi64>",
                  "%r = nn.linear_cross_entropy %x, %w, %l : (tensor<6x4xf32>, "
                  "tensor<4x9xf32>, tensor<6xi64>) -> tensor<f32>"),
            2 * 6 * 4 * 9);
  EXPECT_EQ(flops("%x: tensor<6x4xf32>, %w: tensor<4x9xf32>, %l: "
                  "tensor<6xi64>, %s: tensor<f32>",
                  "%r:3 = nn.linear_cross_entropy_grad %x, %w, %l, %s : "
                  "(tensor<6x4xf32>, tensor<4x9xf32>, tensor<6xi64>, "
                  "tensor<f32>) -> (tensor<f32>, tensor<6x4xf32>, "
                  "tensor<4x9xf32>)"),
            3 * 2 * 6 * 4 * 9);
}

} // namespace
