// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds rotary position embedding, and the inverse frequencies behind its
// tables, so that a table is never stored.

#include "Match.h"
#include "mlir/IR/Matchers.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/NN/IR/NN.h"

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

/// The constant behind conversions, or null.
DenseElementsAttr matchConstant(Value value) {
  while (auto cast = value.getDefiningOp<nn::CastOp>())
    value = cast.getOperand();
  DenseElementsAttr attr;
  if (!matchPattern(value, m_Constant(&attr)) ||
      !isa<FloatType>(attr.getElementType()))
    return {};
  return attr;
}

/// Reads a float constant whose axes but `seqAxis` and the last are 1.
std::optional<Table> readTable(DenseElementsAttr attr, int64_t seqAxis) {
  ArrayRef<int64_t> shape = attr.getType().getShape();
  int64_t rank = static_cast<int64_t>(shape.size());
  Table table;
  table.width = shape.empty() ? 0 : shape.back();
  table.seq = seqAxis < rank ? shape[seqAxis] : 0;
  if (attr.getNumElements() != table.seq * table.width)
    return std::nullopt;
  if (attr.getElementType().isF32()) {
    auto values = attr.getValues<float>();
    table.values.assign(values.begin(), values.end());
    return table;
  }
  for (APFloat number : attr.getValues<APFloat>()) {
    bool lost = false;
    number.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lost);
    table.values.push_back(number.convertToFloat());
  }
  return table;
}

/// How a table holds the frequencies: each once; all of them twice; or each
/// twice in a row.
enum class Layout { Once, Halves, Pairs };

/// Each frequency once, if the table holds it twice as `layout` says.
std::optional<Table> halve(const Table &table, Layout layout) {
  Table half;
  half.seq = table.seq;
  half.width = table.width / 2;
  if (table.width % 2 != 0)
    return std::nullopt;
  for (int64_t row = 0; row < table.seq; ++row)
    for (int64_t column = 0; column < half.width; ++column) {
      bool pairs = layout == Layout::Pairs;
      float value = table.at(row, pairs ? 2 * column : column);
      if (value != table.at(row, pairs ? 2 * column + 1 : column + half.width))
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
  for (float candidate :
       {std::nextafter(nearest, 0.0f), std::nextafter(nearest, INFINITY)}) {
    double error = columnError(cos, sin, column, candidate, scaling);
    if (error < bestError) {
      best = candidate;
      bestError = error;
    }
  }
  return bestError <= 1 ? std::optional<float>(best) : std::nullopt;
}

/// The frequencies of a pair of tables that start at position 0, or none.
std::optional<SmallVector<float>>
recoverFrequencies(const Table &cos, const Table &sin, float &scaling) {
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

/// A pair of tables and what is behind them.
struct Tables {
  Table cos;
  Table sin;
  float scaling = 1;
  std::optional<SmallVector<float>> frequencies;
};

/// Reads each pair of constants once, however many layers use it.
class TableReader {
public:
  /// Null when the constants are no tables over `seqAxis` in this layout.
  const Tables *read(Value cos, Value sin, int64_t seqAxis, Layout layout) {
    DenseElementsAttr c = matchConstant(cos), s = matchConstant(sin);
    if (!c || !s)
      return nullptr;
    auto [entry, isNew] =
        known[static_cast<size_t>(layout)].try_emplace({c, s});
    if (isNew)
      entry->second = compute(c, s, seqAxis, layout);
    return entry->second.get();
  }

private:
  static std::unique_ptr<Tables> compute(DenseElementsAttr c,
                                         DenseElementsAttr s, int64_t seqAxis,
                                         Layout layout) {
    std::optional<Table> cos = readTable(c, seqAxis),
                         sin = readTable(s, seqAxis);
    if (!cos || !sin || cos->seq != sin->seq || cos->width != sin->width)
      return nullptr;
    if (layout != Layout::Once) {
      cos = halve(*cos, layout);
      sin = halve(*sin, layout);
      if (!cos || !sin)
        return nullptr;
    }
    auto tables = std::make_unique<Tables>();
    tables->frequencies = recoverFrequencies(*cos, *sin, tables->scaling);
    tables->cos = std::move(*cos);
    tables->sin = std::move(*sin);
    return tables;
  }

  llvm::DenseMap<std::pair<Attribute, Attribute>, std::unique_ptr<Tables>>
      known[3];
};

/// cos and sin as `nn` values of [seq, width].
std::pair<Value, Value> buildTables(OpBuilder &builder, Location loc,
                                    const Tables &tables) {
  auto type = RankedTensorType::get({tables.cos.seq, tables.cos.width},
                                    builder.getF32Type());
  if (tables.frequencies) {
    auto table = nn::RotaryTableOp::create(
        builder, loc, TypeRange{type, type},
        builder.getDenseF32ArrayAttr(*tables.frequencies),
        builder.getI64IntegerAttr(tables.cos.seq),
        builder.getF32FloatAttr(tables.scaling));
    return {table.getCos(), table.getSin()};
  }
  auto constant = [&](const Table &table) -> Value {
    return nn::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(type, ArrayRef<float>(table.values)));
  };
  return {constant(tables.cos), constant(tables.sin)};
}

/// `size` elements of the last axis of `of`, from `offset` on.
struct Part {
  explicit Part(Value value) : of(value), size(shapeOf(value).back()) {
    auto slice = of.getDefiningOp<nn::SliceOp>();
    for (; slice; slice = of.getDefiningOp<nn::SliceOp>()) {
      ArrayRef<int64_t> whole = shapeOf(slice.getOperand());
      if (slice.getSizes().drop_back() != whole.drop_back())
        return;
      of = slice.getOperand();
      offset += slice.getOffsets().back();
    }
  }
  Value of;
  int64_t offset = 0, size;
};

/// Which way a pair turns: (-b, a) or (b, -a), or neither.
enum class Turn { None, Forward, Back };

/// Whether `value` is [-right half of x, left half of x] over the last axis, or
/// [right, -left].
Turn matchRotatedHalf(Value value, Value x) {
  auto concat = value.getDefiningOp<nn::ConcatOp>();
  Part whole(x);
  if (!concat || concat.getInputs().size() != 2 || whole.size % 2 != 0 ||
      static_cast<int64_t>(concat.getAxis()) != rankOf(x) - 1)
    return Turn::None;
  int64_t half = whole.size / 2;
  auto isHalf = [&](Value value, int64_t start) {
    Part part(value);
    return part.of == whole.of && part.offset == whole.offset + start &&
           part.size == half;
  };
  Value first = concat.getInputs()[0], second = concat.getInputs()[1];
  auto minus = first.getDefiningOp<nn::NegOp>();
  if (minus && isHalf(minus.getOperand(), half) && isHalf(second, 0))
    return Turn::Forward;
  minus = second.getDefiningOp<nn::NegOp>();
  return minus && isHalf(first, half) && isHalf(minus.getOperand(), 0)
             ? Turn::Back
             : Turn::None;
}

Value stripReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<nn::ReshapeOp>())
    value = reshape.getOperand();
  return value;
}

/// Whether `value` holds element `which` of each pair of the elements of x, or
/// of a view of it, as one of `shape`.
bool isOfPairs(Value value, Value x, ArrayRef<int64_t> shape, int64_t which) {
  auto slice = stripReshapes(value).getDefiningOp<nn::SliceOp>();
  SmallVector<int64_t> pairs(shape);
  if (!slice || stripReshapes(slice.getOperand()) != stripReshapes(x))
    return false;
  pairs.back() /= 2;
  pairs.push_back(2);
  SmallVector<int64_t> sizes(pairs), offsets(pairs.size(), 0);
  sizes.back() = 1;
  offsets.back() = which;
  return shapeOf(slice.getOperand()) == ArrayRef<int64_t>(pairs) &&
         slice.getSizes() == ArrayRef<int64_t>(sizes) &&
         slice.getOffsets() == ArrayRef<int64_t>(offsets);
}

/// Whether `value` is x with each pair (a, b) of the last axis as (-b, a).
bool isRotatedPair(Value value, Value x) {
  auto concat = stripReshapes(value).getDefiningOp<nn::ConcatOp>();
  SmallVector<int64_t> pairs(shapeOf(x));
  if (!concat || concat.getInputs().size() != 2 || pairs.back() % 2 != 0 ||
      value.getType() != x.getType())
    return false;
  pairs.back() /= 2;
  pairs.push_back(2);
  auto neg = stripReshapes(concat.getInputs()[0]).getDefiningOp<nn::NegOp>();
  return neg && static_cast<size_t>(concat.getAxis()) == pairs.size() - 1 &&
         shapeOf(concat.getResult()) == ArrayRef<int64_t>(pairs) &&
         isOfPairs(neg.getOperand(), x, shapeOf(x), 1) &&
         isOfPairs(concat.getInputs()[1], x, shapeOf(x), 0);
}

/// How something of four axes is rotated.
struct Rotation {
  const Tables *tables = nullptr;
  bool seqFirst = false; // [batch, seq, heads, dim]
  bool interleaved = false;
  Turn turn = Turn::Forward;
};

/// The rotation of `shape` by two constants, if they are tables for it.
std::optional<Rotation> matchRotation(ArrayRef<int64_t> shape, Value cos,
                                      Value sin, Layout layout,
                                      TableReader &reader) {
  // [batch, heads, seq, dim] as a rule; some models rotate before they
  // transpose, and then the axis of the tables tells.
  ArrayRef<int64_t> tableShape = shapeOf(cos);
  if (tableShape.size() != 4 && tableShape.size() != 2)
    return std::nullopt;
  Rotation rotation;
  rotation.seqFirst = tableShape.size() == 4 && tableShape[2] == 1 &&
                      tableShape[1] == shape[1] && tableShape[1] != 1;
  int64_t seq = rotation.seqFirst ? 1 : 2;
  rotation.tables =
      reader.read(cos, sin, tableShape.size() == 2 ? 0 : seq, layout);
  if (!rotation.tables || rotation.tables->cos.width * 2 != shape[3] ||
      rotation.tables->cos.seq != shape[seq])
    return std::nullopt;
  return rotation;
}

/// Puts a rotary of x in the place of `op`.
void replaceByRotary(Operation *op, Value x, const Rotation &rotation,
                     PatternRewriter &rewriter) {
  Location loc = op->getLoc();
  auto [c, s] = buildTables(rewriter, loc, *rotation.tables);
  nn::NNBuilder b(rewriter, loc);
  Value operand = rotation.seqFirst ? x : b.transpose(x, kSwapHeads);
  auto flag = [&](bool set) {
    return set ? rewriter.getUnitAttr() : UnitAttr();
  };
  Value result = nn::RotaryOp::create(rewriter, loc, operand.getType(), operand,
                                      c, s, flag(rotation.interleaved),
                                      flag(rotation.turn == Turn::Back));
  if (!rotation.seqFirst)
    result = b.transpose(result, kSwapHeads);
  rewriter.replaceOp(op, b.reshape(result, shapeOf(op->getResult(0))));
}

/// x·cos + rotate_half(x)·sin (Su et al. 2021; transformers' apply_rotary).
struct RaiseRotaryEmbedding : OpRewritePattern<nn::AddOp> {
  RaiseRotaryEmbedding(MLIRContext *context, TableReader &reader)
      : OpRewritePattern(context), reader(reader) {}

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
        if (x.getType() != op.getType())
          continue;
        Turn turn = matchRotatedHalf(half, x);
        bool interleaved = turn == Turn::None && isRotatedPair(half, x);
        if (turn == Turn::None && !interleaved)
          continue;
        std::optional<Rotation> rotation =
            matchRotation(shapeOf(x), cos, sin,
                          interleaved ? Layout::Pairs : Layout::Halves, reader);
        if (!rotation)
          continue;
        rotation->interleaved = interleaved;
        rotation->turn = interleaved ? Turn::Forward : turn;
        replaceByRotary(op, x, *rotation, rewriter);
        return success();
      }
    return failure();
  }

  TableReader &reader;
};

/// Two parts of x and the tables that turn them.
struct TurnedParts {
  Value a, b, cos, sin;
  Turn turn;
};

/// A product with a constant table, as what it multiplies and that.
std::optional<std::pair<Value, Value>> matchTableProduct(Value value) {
  auto product = value.getDefiningOp<nn::MulOp>();
  if (!product)
    return std::nullopt;
  bool left = static_cast<bool>(matchConstant(product.getLhs()));
  Value table = left ? product.getLhs() : product.getRhs();
  if (!matchConstant(table))
    return std::nullopt;
  return std::pair(left ? product.getRhs() : product.getLhs(), table);
}

/// (a·cos - b·sin, b·cos + a·sin), or back (a·cos + b·sin, b·cos - a·sin).
template <typename First, typename Second>
std::optional<TurnedParts> matchTurnedParts(Value first, Value second,
                                            Turn turn) {
  auto one = first.getDefiningOp<First>();
  auto other = second.getDefiningOp<Second>();
  if (!one || !other)
    return std::nullopt;
  auto ac = matchTableProduct(one.getLhs()),
       bs = matchTableProduct(one.getRhs());
  auto bc = matchTableProduct(other.getLhs()),
       as = matchTableProduct(other.getRhs());
  if (!ac || !bs || !bc || !as)
    return std::nullopt;
  // Sums are written in either order.
  if (std::is_same_v<Second, nn::AddOp> && bc->first != bs->first)
    std::swap(bc, as);
  if (std::is_same_v<First, nn::AddOp> && bc->first != bs->first)
    std::swap(ac, bs);
  bool same = ac->first == as->first && bs->first == bc->first &&
              matchConstant(ac->second) == matchConstant(bc->second) &&
              matchConstant(bs->second) == matchConstant(as->second);
  if (!same)
    return std::nullopt;
  return TurnedParts{ac->first, bs->first, ac->second, bs->second, turn};
}

/// The rotated halves of x, or elements of its pairs, side by side (gpt-oss;
/// llama's complex numbers).
struct RaiseRotaryOfParts : OpRewritePattern<nn::ConcatOp> {
  RaiseRotaryOfParts(MLIRContext *context, TableReader &reader)
      : OpRewritePattern(context), reader(reader) {}

  LogicalResult matchAndRewrite(nn::ConcatOp op,
                                PatternRewriter &rewriter) const override {
    int64_t rank = rankOf(op.getResult());
    if (op.getInputs().size() != 2 || int64_t(op.getAxis()) != rank - 1)
      return failure();
    // Elements of pairs come as [..., dim / 2, 1].
    bool interleaved = rank == 5;
    Value first = op.getInputs()[0], second = op.getInputs()[1];
    if (interleaved) {
      first = stripReshapes(first);
      second = stripReshapes(second);
    }
    auto parts =
        matchTurnedParts<nn::SubOp, nn::AddOp>(first, second, Turn::Forward);
    if (!parts)
      parts = matchTurnedParts<nn::AddOp, nn::SubOp>(first, second, Turn::Back);
    if (!parts || rankOf(parts->a) != 4)
      return failure();
    SmallVector<int64_t> each(shapeOf(parts->a));
    if (interleaved)
      each.push_back(1);
    if (shapeOf(op.getInputs()[0]) != ArrayRef<int64_t>(each) ||
        shapeOf(op.getInputs()[1]) != ArrayRef<int64_t>(each))
      return failure();
    SmallVector<int64_t> shape(shapeOf(parts->a));
    shape.back() *= 2;
    std::optional<Rotation> rotation =
        matchRotation(shape, parts->cos, parts->sin, Layout::Once, reader);
    Value x = !rotation     ? Value()
              : interleaved ? ofPairs(*parts, shape, rewriter)
                            : ofHalves(*parts, rewriter);
    if (!x)
      return failure();
    rotation->interleaved = interleaved;
    rotation->turn = parts->turn;
    replaceByRotary(op, x, *rotation, rewriter);
    return success();
  }

  /// What has both halves, one behind the other; null if nothing has.
  static Value ofHalves(const TurnedParts &parts, PatternRewriter &rewriter) {
    Part a(parts.a), b(parts.b);
    if (a.of != b.of || a.size != b.size || b.offset != a.offset + a.size)
      return {};
    return nn::NNBuilder(rewriter, a.of.getLoc())
        .slice(a.of, rankOf(a.of) - 1, a.offset, 2 * a.size);
  }

  /// What the elements of pairs are of; null if they are not.
  static Value ofPairs(const TurnedParts &parts, ArrayRef<int64_t> shape,
                       PatternRewriter &rewriter) {
    auto slice = stripReshapes(parts.a).getDefiningOp<nn::SliceOp>();
    if (!slice || !isOfPairs(parts.a, slice.getOperand(), shape, 0) ||
        !isOfPairs(parts.b, slice.getOperand(), shape, 1))
      return {};
    return nn::NNBuilder(rewriter, slice.getLoc())
        .reshape(slice.getOperand(), shape);
  }

  TableReader &reader;
};

/// The tables of an ONNX RotaryEmbedding, kept as constants until here.
struct RaiseRotaryTables : OpRewritePattern<nn::RotaryOp> {
  RaiseRotaryTables(MLIRContext *context, TableReader &reader)
      : OpRewritePattern(context), reader(reader) {}

  LogicalResult matchAndRewrite(nn::RotaryOp op,
                                PatternRewriter &rewriter) const override {
    const Tables *tables =
        reader.read(op.getCos(), op.getSin(), 0, Layout::Once);
    if (!tables || !tables->frequencies)
      return failure();
    auto [c, s] = buildTables(rewriter, op.getLoc(), *tables);
    rewriter.modifyOpInPlace(op, [&, c = c, s = s] {
      op.getCosMutable().assign(c);
      op.getSinMutable().assign(s);
    });
    return success();
  }

  TableReader &reader;
};

struct RaiseRotary : impl::RaiseRotaryBase<RaiseRotary> {
  void runOnOperation() override {
    TableReader reader;
    RewritePatternSet patterns(&getContext());
    patterns.add<RaiseRotaryEmbedding, RaiseRotaryOfParts, RaiseRotaryTables>(
        &getContext(), reader);
    if (failed(rewriteInPlace(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace shardonnx
