// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of RNN, GRU and LSTM with their default activations.

#include "Evaluate.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {
namespace {

enum class Cell { RNN, GRU, LSTM };

int64_t gatesOf(Cell cell) {
  return cell == Cell::RNN ? 1 : cell == Cell::GRU ? 3 : 4;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// The sizes of a recurrent op, and its tensors as numbers.
struct Recurrent {
  Cell cell;
  int64_t steps, batch, input, hidden, directions;
  bool linearBeforeReset;
  std::vector<double> x, w, r, b, h, c, p;

  /// Row `gate` of the products of one step, with its bias of the input.
  double inputProduct(int64_t direction, int64_t gate,
                      const double *row) const {
    int64_t line = (direction * gatesOf(cell) * hidden) + gate;
    double sum = b[direction * 2 * gatesOf(cell) * hidden + gate];
    for (int64_t k = 0; k < input; ++k)
      sum += w[line * input + k] * row[k];
    return sum;
  }
  double recurrentBias(int64_t direction, int64_t gate) const {
    return b[(direction * 2 + 1) * gatesOf(cell) * hidden + gate];
  }
  double recurrentProduct(int64_t direction, int64_t gate,
                          const double *state) const {
    int64_t line = direction * gatesOf(cell) * hidden + gate;
    double sum = 0;
    for (int64_t k = 0; k < hidden; ++k)
      sum += r[line * hidden + k] * state[k];
    return sum;
  }
  double gate(int64_t direction, int64_t which, int64_t unit, const double *row,
              const double *state) const {
    int64_t index = which * hidden + unit;
    return inputProduct(direction, index, row) +
           recurrentProduct(direction, index, state) +
           recurrentBias(direction, index);
  }
  /// What the peephole `which` (input, output, forget) adds.
  double peephole(int64_t direction, int64_t which, int64_t unit,
                  double cellState) const {
    return p[(direction * 3 + which) * hidden + unit] * cellState;
  }

  void step(int64_t direction, const double *row, double *state,
            double *cellState) const;
  void stepGRU(int64_t direction, const double *row, double *state) const;
  void stepLSTM(int64_t direction, const double *row, double *state,
                double *cellState) const;
};

void Recurrent::stepGRU(int64_t d, const double *row, double *state) const {
  std::vector<double> reset(hidden), next(hidden);
  for (int64_t u = 0; u < hidden; ++u) {
    double gateOf = sigmoid(gate(d, 1, u, row, state));
    reset[u] = linearBeforeReset ? gateOf : gateOf * state[u];
  }
  for (int64_t u = 0; u < hidden; ++u) {
    int64_t index = 2 * hidden + u;
    double bias = recurrentBias(d, index);
    double past = linearBeforeReset
                      ? reset[u] * (recurrentProduct(d, index, state) + bias)
                      : recurrentProduct(d, index, reset.data()) + bias;
    double fresh = std::tanh(inputProduct(d, index, row) + past);
    double update = sigmoid(gate(d, 0, u, row, state));
    next[u] = (1 - update) * fresh + update * state[u];
  }
  std::copy(next.begin(), next.end(), state);
}

void Recurrent::stepLSTM(int64_t d, const double *row, double *state,
                         double *cellState) const {
  std::vector<double> next(hidden);
  for (int64_t u = 0; u < hidden; ++u) {
    double before = cellState[u];
    double in = sigmoid(gate(d, 0, u, row, state) + peephole(d, 0, u, before));
    double keep =
        sigmoid(gate(d, 2, u, row, state) + peephole(d, 2, u, before));
    double after = keep * before + in * std::tanh(gate(d, 3, u, row, state));
    double out = sigmoid(gate(d, 1, u, row, state) + peephole(d, 1, u, after));
    cellState[u] = after;
    next[u] = out * std::tanh(after);
  }
  std::copy(next.begin(), next.end(), state);
}

void Recurrent::step(int64_t d, const double *row, double *state,
                     double *cellState) const {
  if (cell == Cell::GRU)
    return stepGRU(d, row, state);
  if (cell == Cell::LSTM)
    return stepLSTM(d, row, state, cellState);
  std::vector<double> next(hidden);
  for (int64_t u = 0; u < hidden; ++u)
    next[u] = std::tanh(gate(d, 0, u, row, state));
  std::copy(next.begin(), next.end(), state);
}

/// The numbers of `tensor`, or as many zeros where it is absent; none when it
/// has another shape.
std::optional<std::vector<double>> numbers(const HostTensor *tensor,
                                           ArrayRef<int64_t> shape) {
  auto count = countOf(shape);
  if (!count)
    return std::nullopt;
  if (!tensor)
    return std::vector<double>(*count, 0);
  if (tensor->getShape() != shape || !tensor->isFloat())
    return std::nullopt;
  std::vector<double> result;
  result.reserve(*count);
  for (Scalar item : tensor->flatten())
    result.push_back(item.f);
  return result;
}

/// Whether a node asks for what is not computed here.
bool isUnusual(onnx::NodeOp node, HostInputs inputs, int64_t steps) {
  if (node.getNodeAttr("clip") || node.getNodeAttr("activations") ||
      node.getInt("input_forget", 0))
    return true;
  if (!inputAt(inputs, 4))
    return false;
  auto lengths = shortInts(inputs[4]);
  return !lengths || llvm::any_of(*lengths, [&](int64_t length) {
    return length != steps;
  });
}

std::optional<Recurrent> readRecurrent(onnx::NodeOp node, HostInputs inputs,
                                       Cell cell) {
  if (!hasInputs(inputs, 3) || inputs[0]->getRank() != 3 ||
      inputs[2]->getRank() != 3 || !inputs[0]->isFloat())
    return std::nullopt;
  StringRef direction = node.getString("direction", "forward");
  bool batchFirst = node.getInt("layout", 0) != 0;
  HostTensor x = batchFirst ? inputs[0]->transpose({1, 0, 2}) : *inputs[0];
  Recurrent o;
  o.cell = cell;
  o.steps = x.getShape()[0];
  o.batch = x.getShape()[1];
  o.input = x.getShape()[2];
  o.hidden = inputs[2]->getShape()[2];
  o.directions = direction == "bidirectional" ? 2 : 1;
  o.linearBeforeReset = node.getInt("linear_before_reset", 0) != 0;
  if (o.batch == 0 || o.hidden == 0 || isUnusual(node, inputs, o.steps) ||
      (direction != "forward" && direction != "reverse" && o.directions == 1))
    return std::nullopt;
  int64_t d = o.directions, rows = gatesOf(cell) * o.hidden;
  auto state = [&](size_t index) {
    const HostTensor *given = inputAt(inputs, index);
    if (!given || !batchFirst || given->getRank() != 3)
      return numbers(given, {d, o.batch, o.hidden});
    HostTensor turned = given->transpose({1, 0, 2});
    return numbers(&turned, {d, o.batch, o.hidden});
  };
  bool isLSTM = cell == Cell::LSTM;
  auto data = numbers(&x, x.getShape()),
       w = numbers(inputs[1], {d, rows, o.input}),
       r = numbers(inputs[2], {d, rows, o.hidden}),
       b = numbers(inputAt(inputs, 3), {d, 2 * rows}), h = state(5),
       c = isLSTM ? state(6) : numbers(nullptr, {d, o.batch, o.hidden}),
       p = numbers(isLSTM ? inputAt(inputs, 7) : nullptr, {d, 3 * o.hidden});
  if (!data || !w || !r || !b || !h || !c || !p)
    return std::nullopt;
  o.x = *data, o.w = *w, o.r = *r, o.b = *b, o.h = *h, o.c = *c, o.p = *p;
  return o;
}

HostTensor tensorOf(ArrayRef<int64_t> shape, ArrayRef<double> numbers,
                    Type type) {
  std::vector<Scalar> values;
  values.reserve(numbers.size());
  for (double number : numbers)
    values.push_back(ofFloat(roundTo(number, type)));
  return HostTensor::dense(shape, type, std::move(values));
}

template <Cell Kind> HostOutputs recur(onnx::NodeOp node, HostInputs inputs) {
  auto o = readRecurrent(node, inputs, Kind);
  if (!o || !countOf({o->steps, o->directions, o->batch, o->hidden}))
    return std::nullopt;
  bool reverse = node.getString("direction", "forward") == "reverse";
  std::vector<double> y(o->steps * o->directions * o->batch * o->hidden);
  for (int64_t d = 0; d < o->directions; ++d)
    for (int64_t n = 0; n < o->steps; ++n) {
      int64_t t = reverse || d == 1 ? o->steps - 1 - n : n;
      for (int64_t s = 0; s < o->batch; ++s) {
        double *state = &o->h[(d * o->batch + s) * o->hidden];
        o->step(d, &o->x[(t * o->batch + s) * o->input], state,
                &o->c[(d * o->batch + s) * o->hidden]);
        std::copy_n(state, o->hidden,
                    &y[((t * o->directions + d) * o->batch + s) * o->hidden]);
      }
    }
  Type type = inputs[0]->getElementType();
  HostTensor all =
      tensorOf({o->steps, o->directions, o->batch, o->hidden}, y, type);
  HostTensor last = tensorOf({o->directions, o->batch, o->hidden}, o->h, type);
  HostTensor cell = tensorOf({o->directions, o->batch, o->hidden}, o->c, type);
  if (node.getInt("layout", 0)) {
    all = all.transpose({2, 0, 1, 3});
    last = last.transpose({1, 0, 2});
    cell = cell.transpose({1, 0, 2});
  }
  HostOutputs outputs = one(all);
  outputs->push_back(last);
  outputs->push_back(cell);
  return outputs;
}

} // namespace

void addRecurrentEvaluators(llvm::StringMap<Evaluator> &table) {
  table["RNN"] = recur<Cell::RNN>;
  table["GRU"] = recur<Cell::GRU>;
  table["LSTM"] = recur<Cell::LSTM>;
}

} // namespace shardonnx
