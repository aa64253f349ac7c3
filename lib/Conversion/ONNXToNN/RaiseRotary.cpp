// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds rotary position embedding, and the inverse frequencies behind its
// tables, so that a table is never stored.

#include "Match.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {

#define GEN_PASS_DEF_RAISEROTARY
#include "shardonnx/Conversion/ONNXToNN/Passes.h.inc"

namespace {

/// A constant of [seq, width], whatever axes of size 1 are around these.
struct Table {
  int64_t seq = 0;
  int64_t width = 0;
  std::vector<float> values;

  float at(int64_t row, int64_t column) const {
    return values[row * width + column];
  }
};

/// Reads a float constant whose axes but `seqAxis` and the last are 1.
std::optional<Table> readTable(Value value, int64_t seqAxis) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<nn::CastOp>(op))
      break;
    value = op->getOperand(0);
  }
  DenseElementsAttr attr;
  if (!matchPattern(value, m_Constant(&attr)) ||
      !isa<FloatType>(attr.getElementType()))
    return std::nullopt;
  ArrayRef<int64_t> shape = shapeOf(value);
  int64_t rank = static_cast<int64_t>(shape.size());
  Table table;
  table.width = shape.empty() ? 0 : shape.back();
  table.seq = seqAxis < rank ? shape[seqAxis] : 0;
  if (attr.getNumElements() != table.seq * table.width)
    return std::nullopt;
  for (APFloat number : attr.getValues<APFloat>()) {
    bool lost = false;
    number.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lost);
    table.values.push_back(number.convertToFloat());
  }
  return table;
}

/// The left half of a table whose halves are equal.
std::optional<Table> halve(const Table &table) {
  Table half;
  half.seq = table.seq;
  half.width = table.width / 2;
  if (table.width % 2 != 0)
    return std::nullopt;
  for (int64_t row = 0; row < table.seq; ++row)
    for (int64_t column = 0; column < half.width; ++column) {
      float value = table.at(row, column);
      if (value != table.at(row, column + half.width))
        return std::nullopt;
      half.values.push_back(value);
    }
  return half;
}

/// How far cos and sin of row·frequency are from a column of the tables,
/// relative to what rounding the angle to f32 may change.
double columnError(const Table &cos, const Table &sin, int64_t column,
                   float frequency, float scaling) {
  double worst = 0;
  for (int64_t row = 0; row < cos.seq; ++row) {
    float angle = static_cast<float>(row) * frequency;
    double slack = 4e-7 * (1 + std::fabs(angle)) * scaling;
    double error = std::max(
        std::fabs(cos.at(row, column) - scaling * std::cos(double(angle))),
        std::fabs(sin.at(row, column) - scaling * std::sin(double(angle))));
    worst = std::max(worst, error / slack);
  }
  return worst;
}

/// The frequency of one column: from row 1, then refined by doubling the row,
/// whose angle is known well enough not to miss a turn.
std::optional<float> recoverFrequency(const Table &cos, const Table &sin,
                                      int64_t column, float scaling) {
  double frequency = std::atan2(sin.at(1, column), cos.at(1, column));
  for (int64_t row = 2; row < cos.seq; row *= 2) {
    double measured = std::atan2(sin.at(row, column), cos.at(row, column));
    double predicted = frequency * static_cast<double>(row);
    frequency += std::remainder(measured - predicted, 2 * M_PI) /
                 static_cast<double>(row);
  }
  float nearest = static_cast<float>(frequency), best = nearest;
  double bestError = columnError(cos, sin, column, nearest, scaling);
  for (float candidate : {std::nextafter(nearest, 0.0f),
                          std::nextafter(nearest, INFINITY)}) {
    double error = columnError(cos, sin, column, candidate, scaling);
    if (error < bestError) {
      best = candidate;
      bestError = error;
    }
  }
  return bestError <= 1 ? std::optional<float>(best) : std::nullopt;
}

/// The frequencies of a pair of tables that start at position 0, or none.
std::optional<SmallVector<float>> recoverFrequencies(const Table &cos,
                                                     const Table &sin,
                                                     float &scaling) {
  if (cos.seq < 2 || cos.width == 0)
    return std::nullopt;
  scaling = cos.at(0, 0);
  SmallVector<float> frequencies;
  for (int64_t column = 0; column < cos.width; ++column) {
    std::optional<float> frequency =
        scaling > 0 ? recoverFrequency(cos, sin, column, scaling)
                    : std::nullopt;
    if (!frequency)
      return std::nullopt;
    frequencies.push_back(*frequency);
  }
  return frequencies;
}

/// cos and sin as `nn` values of [seq, width].
std::pair<Value, Value> buildTables(OpBuilder &builder, Location loc,
                                    const Table &cos, const Table &sin) {
  auto type = RankedTensorType::get({cos.seq, cos.width}, builder.getF32Type());
  float scaling = 1;
  if (auto frequencies = recoverFrequencies(cos, sin, scaling)) {
    auto table = nn::RotaryTableOp::create(
        builder, loc, TypeRange{type, type},
        builder.getDenseF32ArrayAttr(*frequencies),
        builder.getI64IntegerAttr(cos.seq), builder.getF32FloatAttr(scaling));
    return {table.getCos(), table.getSin()};
  }
  auto constant = [&](const Table &table) -> Value {
    return nn::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(type, ArrayRef<float>(table.values)));
  };
  return {constant(cos), constant(sin)};
}

/// Whether `value` is [-right half of x, left half of x] over the last axis.
bool isRotatedHalf(Value value, Value x) {
  auto concat = value.getDefiningOp<nn::ConcatOp>();
  int64_t last = static_cast<int64_t>(shapeOf(x).size()) - 1;
  if (!concat || concat.getInputs().size() != 2 ||
      static_cast<int64_t>(concat.getAxis()) != last)
    return false;
  auto neg = concat.getInputs()[0].getDefiningOp<nn::NegOp>();
  auto right = neg ? neg.getOperand().getDefiningOp<nn::SliceOp>()
                   : nn::SliceOp();
  auto left = concat.getInputs()[1].getDefiningOp<nn::SliceOp>();
  int64_t half = shapeOf(x)[last] / 2;
  auto isHalf = [&](nn::SliceOp slice, int64_t start) {
    if (!slice || slice.getOperand() != x || slice.getSizes()[last] != half ||
        slice.getOffsets()[last] != start)
      return false;
    return llvm::all_of(slice.getOffsets().drop_back(),
                        [](int64_t offset) { return offset == 0; }) &&
           slice.getSizes().drop_back() == shapeOf(x).drop_back();
  };
  return shapeOf(x)[last] % 2 == 0 && isHalf(right, half) && isHalf(left, 0);
}

/// x·cos + rotate_half(x)·sin (Su et al. 2021; transformers' apply_rotary).
struct RaiseRotaryEmbedding : OpRewritePattern<nn::AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::AddOp op,
                                PatternRewriter &rewriter) const override {
    auto a = op.getLhs().getDefiningOp<nn::MulOp>();
    auto b = op.getRhs().getDefiningOp<nn::MulOp>();
    if (!a || !b || shapeOf(op.getResult()).size() != 4)
      return failure();
    return success(succeeded(raise(op, a, b, rewriter)) ||
                   succeeded(raise(op, b, a, rewriter)));
  }

  LogicalResult raise(nn::AddOp op, nn::MulOp straight, nn::MulOp rotated,
                      PatternRewriter &rewriter) const {
    for (bool first : {true, false})
      for (bool second : {true, false}) {
        Value x = first ? straight.getLhs() : straight.getRhs();
        Value cos = first ? straight.getRhs() : straight.getLhs();
        Value half = second ? rotated.getLhs() : rotated.getRhs();
        Value sin = second ? rotated.getRhs() : rotated.getLhs();
        if (x.getType() == op.getType() && isRotatedHalf(half, x) &&
            succeeded(replace(op, x, cos, sin, rewriter)))
          return success();
      }
    return failure();
  }

  LogicalResult replace(nn::AddOp op, Value x, Value cos, Value sin,
                        PatternRewriter &rewriter) const {
    // [batch, heads, seq, dim] as a rule; some models rotate before they
    // transpose, and then the axis of the tables tells.
    ArrayRef<int64_t> tableShape = shapeOf(cos);
    if (tableShape.size() != 4 && tableShape.size() != 2)
      return failure();
    bool seqFirst = tableShape.size() == 4 && tableShape[2] == 1 &&
                    tableShape[1] == shapeOf(x)[1] && tableShape[1] != 1;
    int64_t axis = tableShape.size() == 2 ? 0 : seqFirst ? 1 : 2;
    std::optional<Table> cosTable = readTable(cos, axis);
    std::optional<Table> sinTable = readTable(sin, axis);
    if (!cosTable || !sinTable || cosTable->width != shapeOf(x)[3] ||
        cosTable->seq != shapeOf(x)[seqFirst ? 1 : 2] ||
        sinTable->width != cosTable->width || sinTable->seq != cosTable->seq)
      return failure();
    std::optional<Table> cosHalf = halve(*cosTable), sinHalf = halve(*sinTable);
    if (!cosHalf || !sinHalf)
      return failure();
    Location loc = op.getLoc();
    auto [c, s] = buildTables(rewriter, loc, *cosHalf, *sinHalf);
    Value operand = seqFirst ? x : swapHeadsAndSeq(rewriter, loc, x);
    Value result = nn::RotaryOp::create(rewriter, loc, operand.getType(),
                                        operand, c, s, UnitAttr(), UnitAttr());
    rewriter.replaceOp(op, seqFirst ? result
                                    : swapHeadsAndSeq(rewriter, loc, result));
    return success();
  }
};

/// The tables of an ONNX RotaryEmbedding, kept as constants until here.
struct RaiseRotaryTables : OpRewritePattern<nn::RotaryOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::RotaryOp op,
                                PatternRewriter &rewriter) const override {
    std::optional<Table> cos = readTable(op.getCos(), 0);
    std::optional<Table> sin = readTable(op.getSin(), 0);
    float scaling = 1;
    if (!cos || !sin || cos->seq != sin->seq || cos->width != sin->width ||
        !recoverFrequencies(*cos, *sin, scaling))
      return failure();
    auto [c, s] = buildTables(rewriter, op.getLoc(), *cos, *sin);
    rewriter.modifyOpInPlace(op, [&, c = c, s = s] {
      op.getCosMutable().assign(c);
      op.getSinMutable().assign(s);
    });
    return success();
  }
};

struct RaiseRotary : impl::RaiseRotaryBase<RaiseRotary> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<RaiseRotaryEmbedding, RaiseRotaryTables>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace shardonnx
