// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The evaluator's frame, and the ops that compute an element or move it.

#include "NNEvaluator.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::test;

using Element = std::function<double(ArrayRef<double>)>;

int64_t Tensor::offset(ArrayRef<int64_t> index) const {
  size_t lead = index.size() - shape.size();
  int64_t result = 0;
  for (auto [axis, size] : llvm::enumerate(shape))
    result = result * size + (size == 1 ? 0 : index[lead + axis]);
  return result;
}

void test::forEachIndex(ArrayRef<int64_t> shape,
                        llvm::function_ref<void(ArrayRef<int64_t>)> fn) {
  SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t n = Tensor::count(shape); n > 0; --n) {
    fn(index);
    for (int64_t axis = shape.size() - 1; axis >= 0; --axis) {
      if (++index[axis] < shape[axis])
        break;
      index[axis] = 0;
    }
  }
}

Tensor &Evaluator::make(Value value) {
  return values[value] = Tensor(nn::shapeOf(value));
}

FailureOr<std::vector<Tensor>> Evaluator::run(func::FuncOp function,
                                              ArrayRef<Tensor> arguments) {
  values.clear();
  gradients.clear();
  loss = 0;
  Block &block = function.getBody().front();
  for (auto [argument, tensor] :
       llvm::zip_equal(block.getArguments(), arguments))
    values[argument] = tensor;
  if (failed(runBlock(block)))
    return failure();
  std::vector<Tensor> results;
  for (Value value : block.getTerminator()->getOperands())
    results.push_back(get(value));
  return results;
}

LogicalResult Evaluator::runBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(evaluate(&op)))
      return failure();
  return success();
}

LogicalResult Evaluator::evaluate(Operation *op) {
  // The map may grow while an op's results are made, so references into it
  // would move: room first.
  values.reserve(values.size() + op->getNumResults() + 1);
  if (auto fused = dyn_cast<nn::FusedOp>(op))
    return evaluateFused(fused);
  if (evaluateParameter(op) || evaluateRandom(op) || evaluateElementwise(op) ||
      evaluateShape(op) || evaluateReduce(op) || evaluateMatmul(op) ||
      evaluateAttention(op) || evaluateNorm(op) || evaluateLoss(op) ||
      evaluateIndex(op))
    return success();
  return op->emitError("the evaluator does not know this op");
}

LogicalResult Evaluator::evaluateFused(nn::FusedOp op) {
  Block &body = op.getBody().front();
  for (auto [argument, input] :
       llvm::zip_equal(body.getArguments(), op.getInputs()))
    values[argument] = Tensor(get(input));
  if (failed(runBlock(body)))
    return failure();
  for (auto [result, value] :
       llvm::zip_equal(op.getOutputs(), body.getTerminator()->getOperands()))
    values[result] = Tensor(get(value));
  return success();
}

bool Evaluator::evaluateParameter(Operation *op) {
  return TypeSwitch<Operation *, bool>(op)
      .Case([&](nn::GetOp get) {
        values[get.getResult()] = parameters.at(get.getParameter());
        return true;
      })
      .Case([&](nn::ConstantOp constant) {
        Tensor &result = make(constant.getResult());
        auto elements = cast<DenseElementsAttr>(constant.getValue());
        size_t i = 0;
        if (isa<FloatType>(elements.getElementType()))
          for (const APFloat &value : elements.getValues<APFloat>())
            result.data[i++] = value.convertToDouble();
        else
          for (const APInt &value : elements.getValues<APInt>())
            result.data[i++] =
                double(value.getBitWidth() == 1 ? int64_t(value.getZExtValue())
                                                : value.getSExtValue());
        return true;
      })
      .Case([&](nn::IotaOp iota) {
        Tensor &result = make(iota.getResult());
        forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
          result.at(index) = index[iota.getAxis()];
        });
        return true;
      })
      .Case([&](nn::RotaryTableOp table) {
        Tensor &cos = make(table.getCos()), &sin = make(table.getSin());
        double scaling = table.getScaling().convertToDouble();
        forEachIndex(cos.shape, [&](ArrayRef<int64_t> index) {
          double angle = index[0] * double(table.getInvFreq()[index[1]]);
          cos.at(index) = scaling * std::cos(angle);
          sin.at(index) = scaling * std::sin(angle);
        });
        return true;
      })
      .Case([&](nn::LossScaleOp scale) {
        values[scale.getResult()] = Tensor({}, lossScale);
        return true;
      })
      .Case([&](nn::LossOp report) {
        loss = get(report.getSum()).data[0];
        return true;
      })
      .Case([&](nn::GradOp grad) {
        gradients[grad.getParameter()] = get(grad.getValue());
        return true;
      })
      .Default(false);
}

static double compare(nn::ComparePredicate predicate, double a, double b) {
  switch (predicate) {
  case nn::ComparePredicate::eq:
    return a == b;
  case nn::ComparePredicate::ne:
    return a != b;
  case nn::ComparePredicate::lt:
    return a < b;
  case nn::ComparePredicate::le:
    return a <= b;
  case nn::ComparePredicate::gt:
    return a > b;
  case nn::ComparePredicate::ge:
    return a >= b;
  }
  llvm_unreachable("six comparisons");
}

static double castElement(Type to, double x) {
  if (to.isInteger(1))
    return x != 0;
  return isa<IntegerType>(to) ? std::trunc(x) : x;
}

static double gelu(bool tanh, double x) {
  double inner =
      tanh ? std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))
           : std::erf(x / std::sqrt(2.0));
  return 0.5 * x * (1 + inner);
}

static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

static Element unaryFunction(Operation *op) {
  auto of = [](double (*fn)(double)) -> Element {
    return [fn](ArrayRef<double> x) { return fn(x[0]); };
  };
  return TypeSwitch<Operation *, Element>(op)
      .Case([&](nn::NegOp) { return of([](double x) { return -x; }); })
      .Case([&](nn::ExpOp) { return of(std::exp); })
      .Case([&](nn::LogOp) { return of(std::log); })
      .Case([&](nn::SqrtOp) { return of(std::sqrt); })
      .Case([&](nn::RsqrtOp) {
        return of([](double x) { return 1 / std::sqrt(x); });
      })
      .Case(
          [&](nn::ReciprocalOp) { return of([](double x) { return 1 / x; }); })
      .Case([&](nn::TanhOp) { return of(std::tanh); })
      .Case([&](nn::ErfOp) { return of(std::erf); })
      .Case([&](nn::SigmoidOp) { return of(sigmoid); })
      .Case([&](nn::ReluOp) {
        return of([](double x) { return x > 0 ? x : 0; });
      })
      .Case([&](nn::AbsOp) { return of(std::fabs); })
      .Case([&](nn::SinOp) { return of(std::sin); })
      .Case([&](nn::CosOp) { return of(std::cos); })
      .Case([&](nn::SiluOp) {
        return of([](double x) { return x * sigmoid(x); });
      })
      .Case([&](nn::GeluOp gelu) -> Element {
        bool tanh = gelu.getTanh();
        return [tanh](ArrayRef<double> x) { return ::gelu(tanh, x[0]); };
      })
      .Case([&](nn::CastOp cast) -> Element {
        Type to = nn::elementType(cast.getResult());
        return [to](ArrayRef<double> x) { return castElement(to, x[0]); };
      })
      .Default(Element());
}

static Element binaryFunction(Operation *op) {
  auto of = [](double (*fn)(double, double)) -> Element {
    return [fn](ArrayRef<double> x) { return fn(x[0], x[1]); };
  };
  using D = double;
  return TypeSwitch<Operation *, Element>(op)
      .Case([&](nn::AddOp) { return of([](D a, D b) { return a + b; }); })
      .Case([&](nn::SubOp) { return of([](D a, D b) { return a - b; }); })
      .Case([&](nn::MulOp) { return of([](D a, D b) { return a * b; }); })
      .Case([&](nn::DivOp) { return of([](D a, D b) { return a / b; }); })
      .Case([&](nn::PowOp) { return of(std::pow); })
      .Case(
          [&](nn::MaxOp) { return of([](D a, D b) { return a > b ? a : b; }); })
      .Case(
          [&](nn::MinOp) { return of([](D a, D b) { return a < b ? a : b; }); })
      .Case([&](nn::AndOp) { return of([](D a, D b) { return D(a && b); }); })
      .Case([&](nn::OrOp) { return of([](D a, D b) { return D(a || b); }); })
      .Case([&](nn::CompareOp op) -> Element {
        nn::ComparePredicate predicate = op.getPredicate();
        return [predicate](ArrayRef<double> x) {
          return compare(predicate, x[0], x[1]);
        };
      })
      .Case([&](nn::SelectOp) -> Element {
        return [](ArrayRef<double> x) { return x[0] ? x[1] : x[2]; };
      })
      .Default(Element());
}

Element test::elementFunction(Operation *op) {
  if (Element unary = unaryFunction(op))
    return unary;
  if (Element binary = binaryFunction(op))
    return binary;
  return mathFunction(op);
}

bool Evaluator::evaluateElementwise(Operation *op) {
  Element fn = elementFunction(op);
  if (!fn)
    return false;
  Tensor &result = make(op->getResult(0));
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
    SmallVector<double, 3> x;
    for (Value operand : op->getOperands())
      x.push_back(get(operand).at(index));
    result.at(index) = fn(x);
  });
  return true;
}

/// The index plus an offset on each axis.
static SmallVector<int64_t> shifted(ArrayRef<int64_t> index,
                                    ArrayRef<int64_t> by) {
  SmallVector<int64_t> result(index);
  for (auto [i, offset] : llvm::zip(result, by))
    i += offset;
  return result;
}

bool Evaluator::evaluateShape(Operation *op) {
  return TypeSwitch<Operation *, bool>(op)
      .Case([&](nn::ReshapeOp op) {
        Tensor &result = make(op.getResult());
        result.data = get(op.getOperand()).data;
        return true;
      })
      .Case([&](nn::BroadcastOp op) {
        Tensor &result = make(op.getResult());
        forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
          result.at(index) = get(op.getOperand()).at(index);
        });
        return true;
      })
      .Case([&](nn::TransposeOp op) {
        Tensor &result = make(op.getResult());
        forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
          SmallVector<int64_t> from(index.size());
          for (auto [axis, source] : llvm::enumerate(op.getPermutation()))
            from[source] = index[axis];
          result.at(index) = get(op.getOperand()).at(from);
        });
        return true;
      })
      .Case([&](nn::SliceOp op) {
        Tensor &result = make(op.getResult());
        forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
          result.at(index) =
              get(op.getOperand()).at(shifted(index, op.getOffsets()));
        });
        return true;
      })
      .Case([&](nn::PadOp op) {
        Tensor &result = make(op.getResult());
        const Tensor &x = get(op.getOperand());
        forEachIndex(x.shape, [&](ArrayRef<int64_t> index) {
          result.at(shifted(index, op.getLow())) = x.at(index);
        });
        return true;
      })
      .Case([&](nn::ConcatOp op) {
        Tensor &result = make(op.getResult());
        SmallVector<int64_t> by(result.shape.size(), 0);
        for (Value input : op.getInputs()) {
          const Tensor &x = get(input);
          forEachIndex(x.shape, [&](ArrayRef<int64_t> index) {
            result.at(shifted(index, by)) = x.at(index);
          });
          by[op.getAxis()] += x.shape[op.getAxis()];
        }
        return true;
      })
      .Default(false);
}

bool Evaluator::evaluateReduce(Operation *op) {
  if (!isa<nn::ReduceSumOp, nn::ReduceMeanOp, nn::ReduceMaxOp>(op))
    return false;
  const Tensor &x = get(op->getOperand(0));
  auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes").asArrayRef();
  Tensor kept;
  kept.shape = x.shape;
  for (int64_t axis : axes)
    kept.shape[axis] = 1;
  bool isMax = isa<nn::ReduceMaxOp>(op);
  kept.data.assign(Tensor::count(kept.shape), isMax ? -INFINITY : 0);
  forEachIndex(x.shape, [&](ArrayRef<int64_t> index) {
    double &sum = kept.at(index);
    sum = isMax ? std::max(sum, x.at(index)) : sum + x.at(index);
  });
  if (isa<nn::ReduceMeanOp>(op))
    for (double &value : kept.data)
      value *= double(kept.data.size()) / x.data.size();
  make(op->getResult(0)).data = kept.data;
  return true;
}
