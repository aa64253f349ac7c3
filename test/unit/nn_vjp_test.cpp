// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every op's gradient against finite differences, every decomposition against
// its op, every vector emission against its op, on the interpreter in double.

#include "VectorEvaluator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "nn_reference.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::test;

namespace {

/// One op on function arguments.
struct Case {
  const char *name;
  /// `%a: tensor<…>, …`: the op's operands, in order.
  const char *arguments;
  const char *op;
  unsigned results = 1;
  /// Where floats are drawn from.
  double low = -2, high = 2;
  /// Float operands that have no gradient, by index.
  std::vector<unsigned> fixed = {};
  /// Operands that are powers of two, by index.
  std::vector<unsigned> powers = {};
};

void PrintTo(const Case &c, std::ostream *os) { *os << c.name; }

const Case kCases[] = {
#include "nn_cases.inc"
};

class NNOpTest : public ::testing::TestWithParam<Case> {
public:
  void SetUp() override {
    DialectRegistry registry;
    registry.insert<nn::NNDialect, func::FuncDialect, arith::ArithDialect,
                    math::MathDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    parse(GetParam());
  }

  void parse(const Case &c) {
    std::string text = std::string("func.func @f(") + c.arguments + ") {\n%r";
    if (c.results > 1)
      text += ":" + std::to_string(c.results);
    text += std::string(" = ") + c.op + "\nreturn\n}";
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << text;
    function = *module->getOps<func::FuncOp>().begin();
    op = &function.getBody().front().front();
    terminator = function.getBody().front().getTerminator();
    returnValues(op->getResults());
  }

  void returnValues(ValueRange values) {
    terminator->setOperands(values);
    function.setFunctionType(FunctionType::get(
        &context, function.getArgumentTypes(), values.getTypes()));
  }

  /// Random elements; integers are small, booleans mostly true.
  Tensor draw(Value value, double low, double high) {
    Tensor tensor(nn::shapeOf(value));
    Type element = nn::elementType(value);
    for (double &x : tensor.data) {
      x = std::uniform_real_distribution<double>(low, high)(random);
      if (element.isInteger(1))
        x = random() % 4 != 0;
      else if (isa<IntegerType>(element))
        x = random() % 3;
    }
    return tensor;
  }

  Tensor drawOperand(Value value, unsigned index) {
    const Case &c = GetParam();
    if (!llvm::is_contained(c.powers, index))
      return draw(value, c.low, c.high);
    Tensor tensor(nn::shapeOf(value));
    for (double &x : tensor.data)
      x = std::ldexp(1.0, std::uniform_int_distribution<int>(-7, 9)(random));
    return tensor;
  }

  std::vector<Tensor> drawArguments() {
    std::vector<Tensor> arguments;
    for (auto [i, argument] : llvm::enumerate(function.getArguments()))
      arguments.push_back(drawOperand(argument, i));
    return arguments;
  }

  std::vector<Tensor> run(ArrayRef<Tensor> arguments) {
    Evaluator evaluator;
    FailureOr<std::vector<Tensor>> results = evaluator.run(function, arguments);
    EXPECT_TRUE(succeeded(results));
    return succeeded(results) ? *results : std::vector<Tensor>();
  }

  bool isComposite() const {
    auto decomposable = dyn_cast<nn::DecomposableOpInterface>(op);
    return decomposable && decomposable.isComposite();
  }

  void checkGradient();
  void checkDecomposition();
  void checkVectors();

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  Operation *op = nullptr, *terminator = nullptr;
  std::mt19937 random{7};
};

void expectNear(const Tensor &got, const Tensor &want, double tolerance,
                const std::string &what) {
  ASSERT_EQ(got.shape, want.shape) << what;
  for (size_t i = 0; i < want.data.size(); ++i)
    ASSERT_NEAR(got.data[i], want.data[i],
                tolerance * (1 + std::fabs(want.data[i])))
        << what << " element " << i;
}

void NNOpTest::checkGradient() {
  auto differentiable = cast<nn::DifferentiableOpInterface>(op);
  std::vector<Tensor> arguments = drawArguments();
  Tensor cotangent = draw(op->getResult(0), -1, 1);
  llvm::SmallBitVector needed(op->getNumOperands());
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    needed[i] = isa<FloatType>(nn::elementType(operand)) &&
                !llvm::is_contained(GetParam().fixed, i);

  // The loss is the product with the cotangent, by definition.
  auto loss = [&]() {
    Tensor result = run(arguments)[0];
    double sum = 0;
    for (auto [x, g] : llvm::zip_equal(result.data, cotangent.data))
      sum += x * g;
    return sum;
  };
  std::vector<Tensor> expected;
  const double step = 1e-5;
  for (unsigned i : needed.set_bits()) {
    Tensor gradient(arguments[i].shape);
    for (size_t e = 0; e < gradient.data.size(); ++e) {
      double &x = arguments[i].data[e], saved = x;
      x = saved + step;
      double up = loss();
      x = saved - step;
      double down = loss();
      x = saved;
      gradient.data[e] = (up - down) / (2 * step);
    }
    expected.push_back(gradient);
  }

  ASSERT_TRUE(succeeded(function.insertArgument(function.getNumArguments(),
                                                op->getResult(0).getType(), {},
                                                function.getLoc())));
  SmallVector<Value> resultGrads(op->getNumResults());
  resultGrads[0] = function.getArguments().back();
  SmallVector<Value> operandGrads(op->getNumOperands());
  OpBuilder builder(terminator);
  ASSERT_TRUE(succeeded(
      differentiable.buildVjp(builder, resultGrads, needed, operandGrads)));
  SmallVector<Value> gradients;
  // Nothing flows through steps: no gradient instead of one of zeros.
  bool isStep = op->getNumOperands() == 1 && needed[0] && !operandGrads[0];
  if (isStep)
    return expectNear(expected[0], Tensor(expected[0].shape), 0, "gradient 0");
  for (unsigned i : needed.set_bits()) {
    ASSERT_TRUE(operandGrads[i]) << "operand " << i;
    EXPECT_EQ(operandGrads[i].getType(), op->getOperand(i).getType());
    gradients.push_back(operandGrads[i]);
  }
  for (unsigned i = 0; i < needed.size(); ++i) {
    EXPECT_EQ(bool(operandGrads[i]), needed[i])
        << "operand " << i << " was not asked for";
  }
  returnValues(gradients);
  ASSERT_TRUE(succeeded(verify(*module)));
  arguments.push_back(cotangent);
  std::vector<Tensor> got = run(arguments);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    expectNear(got[i], expected[i], 2e-6, "gradient " + std::to_string(i));
}

void NNOpTest::checkDecomposition() {
  auto decomposable = cast<nn::DecomposableOpInterface>(op);
  std::vector<Tensor> arguments = drawArguments();
  std::vector<Tensor> expected = run(arguments);
  OpBuilder builder(terminator);
  FailureOr<SmallVector<Value>> parts = decomposable.decompose(builder);
  ASSERT_TRUE(succeeded(parts));
  EXPECT_TRUE(llvm::equal(ValueRange(*parts).getTypes(), op->getResultTypes()));
  returnValues(*parts);
  ASSERT_TRUE(succeeded(verify(*module)));
  std::vector<Tensor> got = run(arguments);
  for (size_t i = 0; i < got.size(); ++i)
    expectNear(got[i], expected[i], 1e-9, "result " + std::to_string(i));
}

void NNOpTest::checkVectors() {
  auto elementwise = cast<nn::ElementwiseOpInterface>(op);
  auto scalarType = [&](Value value) -> Type {
    Type element = nn::elementType(value);
    return isa<FloatType>(element) ? Float32Type::get(&context) : element;
  };
  OpBuilder builder(&context);
  builder.setInsertionPointToEnd(module->getBody());
  SmallVector<Type> types;
  for (Value operand : op->getOperands())
    types.push_back(scalarType(operand));
  Type resultType = scalarType(op->getResult(0));
  auto scalar =
      func::FuncOp::create(builder, op->getLoc(), "scalar",
                           FunctionType::get(&context, types, {resultType}));
  Block *block = scalar.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  Value result = elementwise.emitVector(builder, block->getArguments());
  ASSERT_TRUE(result);
  EXPECT_EQ(result.getType(), resultType);
  func::ReturnOp::create(builder, op->getLoc(), result);
  ASSERT_TRUE(succeeded(verify(*module)));

  for (int trial = 0; trial < 50; ++trial) {
    SmallVector<double> x;
    std::vector<Tensor> operands;
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      x.push_back(drawOperand(operand, i).data.front());
      operands.push_back(Tensor(ArrayRef<int64_t>(), x.back()));
    }
    std::optional<double> got = evaluateScalars(scalar, x);
    ASSERT_TRUE(got) << "an op that the scalar evaluator does not know";
    FailureOr<std::vector<Tensor>> results = Evaluator().run(op, operands);
    ASSERT_TRUE(succeeded(results));
    double want = results->front().data.front();
    Type element = nn::elementType(op->getResult(0));
    if (element.getIntOrFloatBitWidth() == 8 && isa<FloatType>(element))
      got = nn::Arithmetic(element).of(*got).f; // as a store does
    EXPECT_NEAR(*got, want, 1e-6 * (1 + std::fabs(want)));
  }
}

TEST_P(NNOpTest, AgreesWithItsDefinition) {
  ASSERT_TRUE((isa<nn::DifferentiableOpInterface, nn::DecomposableOpInterface,
                   nn::ElementwiseOpInterface>(op)));
  // Each check starts from the op alone.
  using Check = void (NNOpTest::*)();
  auto check = [&](bool applies, Check run) {
    if (!applies || HasFatalFailure())
      return;
    parse(GetParam());
    (this->*run)();
  };
  bool vectors = isa<nn::ElementwiseOpInterface>(op), parts = isComposite(),
       gradient = isa<nn::DifferentiableOpInterface>(op);
  check(vectors, &NNOpTest::checkVectors);
  check(parts, &NNOpTest::checkDecomposition);
  check(gradient, &NNOpTest::checkGradient);
}

INSTANTIATE_TEST_SUITE_P(Ops, NNOpTest, ::testing::ValuesIn(kCases),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

} // namespace
