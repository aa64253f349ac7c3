// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers RNN, GRU and LSTM with their default activations: the products with
// the inputs of all steps at once, then one step after the other.

#include "Rearrange.h"

using namespace mlir;

namespace shardonnx {
namespace {

/// What one direction of a recurrent node computes with, in f32. Its gates
/// stand one behind the other along the last axis.
struct Direction {
  int64_t steps, batch, hidden;
  Value inputs;        // [steps, batch, gates·hidden], with both biases
  Value recurrence;    // [gates·hidden, hidden]
  Value recurrentBias; // [1, gates·hidden], null without
  Value state, cell;   // [batch, hidden], as they are after each step
  Value peepholes;     // [1, 3·hidden], null without
};

/// Gates `first`, `first` + 1, … of `count` along the last axis.
Value gates(Lowering &l, const Direction &d, Value all, int64_t first,
            int64_t count = 1) {
  return l.slice(all, rankOf(all) - 1, first * d.hidden, count * d.hidden);
}

/// `state` times the recurrence of some gates.
Value recur(Lowering &l, const Direction &d, Value state, int64_t first,
            int64_t count) {
  Value weights = l.slice(d.recurrence, 0, first * d.hidden, count * d.hidden);
  return nn::MatmulOp::create(l.builder, l.loc, state, weights,
                              /*transposeLhs=*/false, /*transposeRhs=*/true);
}

/// tanh(W·x + R·h + b)
void stepRNN(Lowering &l, Direction &d, Value input) {
  Value sum = l.add(input, recur(l, d, d.state, 0, 1));
  d.state = l.unary<nn::TanhOp>(sum);
}

/// Update and reset gates, then the new state; linear_before_reset applies the
/// reset gate to the product rather than to the state.
void stepGRU(Lowering &l, Direction &d, Value input, bool linearBeforeReset) {
  Value both = l.add(gates(l, d, input, 0, 2), recur(l, d, d.state, 0, 2));
  both = l.unary<nn::SigmoidOp>(both);
  Value update = gates(l, d, both, 0), reset = gates(l, d, both, 1), past;
  if (linearBeforeReset) {
    past = recur(l, d, d.state, 2, 1);
    if (d.recurrentBias)
      past = l.add(past, gates(l, d, d.recurrentBias, 2));
    past = l.mul(reset, past);
  } else {
    past = recur(l, d, l.mul(reset, d.state), 2, 1);
  }
  Value fresh = l.unary<nn::TanhOp>(l.add(gates(l, d, input, 2), past));
  d.state = l.add(l.mul(l.oneMinus(update), fresh), l.mul(update, d.state));
}

/// Gates in the order of ONNX: input, output, forget, cell.
void stepLSTM(Lowering &l, Direction &d, Value input) {
  Value sums = l.add(input, recur(l, d, d.state, 0, 4));
  auto gate = [&](int64_t which, int64_t peephole, Value cell) -> Value {
    Value sum = gates(l, d, sums, which);
    if (d.peepholes)
      sum = l.add(sum, l.mul(gates(l, d, d.peepholes, peephole), cell));
    return l.unary<nn::SigmoidOp>(sum);
  };
  Value in = gate(0, 0, d.cell), forget = gate(2, 2, d.cell);
  Value fresh = l.unary<nn::TanhOp>(gates(l, d, sums, 3));
  d.cell = l.add(l.mul(forget, d.cell), l.mul(in, fresh));
  d.state = l.mul(gate(1, 1, d.cell), l.unary<nn::TanhOp>(d.cell));
}

enum class Cell { RNN, GRU, LSTM };

/// A recurrent node: its operands by time, in f32, one direction after another
/// along axis 0.
struct Recurrent {
  Cell cell;
  int64_t steps, batch, hidden, directions;
  bool batchFirst, reverse, linearBeforeReset;
  Value x, w, r, b, state, memory, peepholes; // b, … null where absent

  int64_t gates() const {
    return cell == Cell::RNN ? 1 : cell == Cell::GRU ? 3 : 4;
  }
};

/// Whether a node names the activations that it has without a word, for each
/// direction; exporters of TensorFlow do.
bool hasDefaultActivations(onnx::NodeOp node, const Recurrent &o) {
  auto given = dyn_cast_or_null<ArrayAttr>(node.getNodeAttr("activations"));
  if (!given)
    return !node.getNodeAttr("activations");
  SmallVector<StringRef> each = {"Tanh"};
  if (o.cell != Cell::RNN)
    each = {"Sigmoid", "Tanh"};
  if (o.cell == Cell::LSTM)
    each.push_back("Tanh");
  if (given.size() != each.size() * o.directions)
    return false;
  for (auto [i, name] : llvm::enumerate(given.getAsValueRange<StringAttr>()))
    if (!name.equals_insensitive(each[i % each.size()]))
      return false;
  return true;
}

/// Whether a node asks for what is not computed here.
bool isUnusual(Lowering &l, onnx::NodeOp node, const Recurrent &o) {
  if (node.getNodeAttr("clip") || !hasDefaultActivations(node, o) ||
      node.getInt("input_forget", 0))
    return true;
  SmallVector<int64_t> lengths;
  if (!node.getInput(4))
    return false;
  return !l.getInts(node.getInput(4), lengths) ||
         llvm::any_of(lengths, [&](int64_t n) { return n != o.steps; });
}

std::optional<Recurrent> readRecurrent(Lowering &l, onnx::NodeOp node,
                                       Cell cell) {
  Recurrent o;
  o.cell = cell;
  o.batchFirst = node.getInt("layout", 0) != 0;
  StringRef direction = node.getString("direction", "forward");
  o.reverse = direction == "reverse";
  o.directions = direction == "bidirectional" ? 2 : 1;
  if (!o.reverse && o.directions == 1 && direction != "forward")
    return l.unsupported(node, "its direction is unknown");
  o.linearBeforeReset = node.getInt("linear_before_reset", 0) != 0;
  SmallVector<Value> operands(8);
  for (unsigned i : {0, 1, 2, 3, 5, 6, 7})
    if (Value input = node.getInput(i)) {
      operands[i] = l.get(input);
      if (!isFloat(operands[i]))
        return l.unsupported(node, "only of floats");
      operands[i] = l.f32(operands[i]);
      bool byBatch = o.batchFirst && (i == 0 || i == 5 || i == 6);
      if (byBatch && rankOf(operands[i]) == 3)
        operands[i] = l.transpose(operands[i], {1, 0, 2});
    }
  o.x = operands[0], o.w = operands[1], o.r = operands[2], o.b = operands[3];
  o.state = operands[5], o.memory = operands[6], o.peepholes = operands[7];
  if (rankOf(o.x) != 3 || rankOf(o.r) != 3)
    return l.unsupported(node, "its operands do not fit");
  o.steps = shapeOf(o.x)[0];
  o.batch = shapeOf(o.x)[1];
  o.hidden = shapeOf(o.r)[2];
  constexpr int64_t mostSteps = 4096; // each is ops of its own
  if (o.steps > mostSteps)
    return l.unsupported(node, "its sequence of " + Twine(o.steps) +
                                   " steps is too long to be written out");
  if (o.steps < 1 || o.batch < 1 || o.hidden < 1)
    return l.unsupported(node, "its operands are empty");
  int64_t d = o.directions, rows = o.gates() * o.hidden;
  auto fits = [](Value value, ArrayRef<int64_t> shape) {
    return !value || shapeOf(value) == shape;
  };
  // The exporter cuts the weights to the projected size, and drops the others.
  if (cell == Cell::LSTM && o.memory && rankOf(o.memory) == 3 &&
      shapeOf(o.memory)[2] != o.hidden)
    return l.unsupported(node, "a state of " + Twine(o.hidden) +
                                   " elements beside a cell of " +
                                   Twine(shapeOf(o.memory)[2]) +
                                   " is an nn.LSTM with proj_size, which ONNX "
                                   "has no op for: leave proj_size out, or "
                                   "write the steps out in forward()");
  if (!fits(o.w, {d, rows, shapeOf(o.x)[2]}) ||
      !fits(o.r, {d, rows, o.hidden}) || !fits(o.b, {d, 2 * rows}) ||
      !fits(o.state, {d, o.batch, o.hidden}) ||
      !fits(o.memory, {d, o.batch, o.hidden}) ||
      !fits(o.peepholes, {d, 3 * o.hidden}))
    return l.unsupported(node, "its operands do not fit");
  if (isUnusual(l, node, o))
    return l.unsupported(node, "only with the default activations, unclipped, "
                               "over sequences of full length");
  return o;
}

/// Direction `index` of a node, before its first step.
Direction readDirection(Lowering &l, const Recurrent &o, int64_t index) {
  Direction d{o.steps, o.batch, o.hidden, {}, {}, {}, {}, {}, {}};
  int64_t rows = o.gates() * o.hidden, width = shapeOf(o.x)[2];
  auto part = [&](Value value, ArrayRef<int64_t> shape) -> Value {
    if (!value)
      return l.constant(0, elementType(o.x), shape);
    return l.reshape(l.slice(value, 0, index, 1), shape);
  };
  d.state = part(o.state, {o.batch, o.hidden});
  d.cell = part(o.memory, {o.batch, o.hidden});
  d.recurrence = part(o.r, {rows, o.hidden});
  if (o.peepholes)
    d.peepholes = part(o.peepholes, {1, 3 * o.hidden});
  Value flat = l.reshape(o.x, {o.steps * o.batch, width});
  Value products =
      nn::MatmulOp::create(l.builder, l.loc, flat, part(o.w, {rows, width}),
                           /*transposeLhs=*/false, /*transposeRhs=*/true);
  if (o.b) {
    Value biases = part(o.b, {2, rows});
    products = l.add(products, l.slice(biases, 0, 0, 1));
    d.recurrentBias = l.slice(biases, 0, 1, 1);
    Value added = d.recurrentBias;
    // What a reset gate multiplies has its bias inside.
    if (o.cell == Cell::GRU && o.linearBeforeReset)
      added = nn::PadOp::create(l.builder, l.loc, gates(l, d, added, 0, 2),
                                ArrayRef<int64_t>{0, 0},
                                ArrayRef<int64_t>{0, o.hidden});
    products = l.add(products, added);
  }
  d.inputs = l.reshape(products, {o.steps, o.batch, rows});
  return d;
}

/// Runs through the steps; the states after each, by time.
SmallVector<Value> runDirection(Lowering &l, const Recurrent &o, Direction &d,
                                bool backwards) {
  SmallVector<Value> states(o.steps);
  int64_t rows = o.gates() * o.hidden;
  for (int64_t n = 0; n < o.steps; ++n) {
    int64_t t = backwards ? o.steps - 1 - n : n;
    Value input = l.reshape(l.slice(d.inputs, 0, t, 1), {o.batch, rows});
    if (o.cell == Cell::RNN)
      stepRNN(l, d, input);
    else if (o.cell == Cell::GRU)
      stepGRU(l, d, input, o.linearBeforeReset);
    else
      stepLSTM(l, d, input);
    states[t] = l.reshape(d.state, {1, 1, o.batch, o.hidden});
  }
  return states;
}

template <Cell Kind> LogicalResult lower(Lowering &l, onnx::NodeOp node) {
  auto o = readRecurrent(l, node, Kind);
  if (!o)
    return failure();
  SmallVector<Value> all, last, cells;
  for (int64_t index = 0; index < o->directions; ++index) {
    Direction d = readDirection(l, *o, index);
    all.push_back(join(l, runDirection(l, *o, d, o->reverse || index == 1), 0));
    last.push_back(l.reshape(d.state, {1, o->batch, o->hidden}));
    cells.push_back(l.reshape(d.cell, {1, o->batch, o->hidden}));
  }
  SmallVector<Value> results = {join(l, all, 1), join(l, last, 0),
                                join(l, cells, 0)};
  if (o->batchFirst) {
    results[0] = l.transpose(results[0], {2, 0, 1, 3});
    for (Value &state : MutableArrayRef(results).drop_front())
      state = l.transpose(state, {1, 0, 2});
  }
  for (auto [result, value] : llvm::zip(node->getResults(), results))
    if (auto type = dyn_cast<ShapedType>(result.getType()))
      l.set(result, l.cast(value, type.getElementType()));
  return success();
}

} // namespace

void addRecurrentHandlers(HandlerTable &table) {
  table["RNN"] = lower<Cell::RNN>;
  table["GRU"] = lower<Cell::GRU>;
  table["LSTM"] = lower<Cell::LSTM>;
}

} // namespace shardonnx
