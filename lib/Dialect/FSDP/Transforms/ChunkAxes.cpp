// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cuts products of forward, and of what is computed again, beside collectives
// of the tensor axis into chunks of rows (async tensor parallelism), which
// fsdp-overlap-axes and exec-overlap-axes then have run side by side.

#include "AxisWork.h"
#include "Step.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"

#include <numeric>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_CHUNKAXESPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

static constexpr int64_t kMostChunks = 8;

static int64_t product(ArrayRef<int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t(1),
                         std::multiplies<>());
}

/// A linear layer: [rows, k] by [k, n].
static bool isLinear(nn::MatmulOp op) {
  return op && !op.getTransposeLhs() && nn::rankOf(op.getLhs()) == 2 &&
         nn::rankOf(op.getRhs()) == 2;
}

namespace {

/// The rows that are exchanged, [outer, whole, width]: of each rank a part of
/// `part` rows of the whole.
struct Rows {
  int64_t outer, part, parts, width;
  int64_t whole() const { return part * parts; }
  int64_t all() const { return outer * whole(); }
};

/// Tiles of a product's result go over the GPU's processors in waves.
struct Tiles {
  int64_t processors, rows, columns;
  int64_t wavesOf(int64_t m, int64_t n) const {
    return llvm::divideCeil(
        llvm::divideCeil(m, rows) * llvm::divideCeil(n, columns), processors);
  }
};

/// One collective and the products beside it.
class Chunks {
public:
  Chunks(const AxisRates &rates, const Tiles &tiles, double bytesPerChunk,
         int64_t asked)
      : rates(rates), tiles(tiles), bytesPerChunk(bytesPerChunk), asked(asked) {
  }

  void cut(nn::AllGatherOp gather);
  void cut(nn::ReduceScatterOp sum);

private:
  int64_t bestOf(Operation *collective, ArrayRef<nn::MatmulOp> products,
                 const Rows &rows, double copied) const;

  const AxisRates rates;
  const Tiles tiles;
  const double bytesPerChunk;
  const int64_t asked; // 0: nobody asked
};

} // namespace

/// Of the whole along `dim`, of which the last dimension is the width.
static std::optional<Rows> rowsOf(ArrayRef<int64_t> whole, int64_t dim,
                                  int64_t parts, ArrayRef<int64_t> sections) {
  auto last = int64_t(whole.size()) - 1;
  if (dim >= last || sections.size() != 1)
    return std::nullopt;
  int64_t outer = product(whole.take_front(dim));
  int64_t inner = product(whole.slice(dim, last - dim));
  return Rows{outer, inner / parts, parts, whole.back()};
}

// How long it takes, in bytes sent: the first chunk is waited for, the others
// run beside products or these beside them.
int64_t Chunks::bestOf(Operation *collective, ArrayRef<nn::MatmulOp> products,
                       const Rows &rows, double copied) const {
  double sent =
      sentBy(collective) * double(rows.parts - 1) / double(rows.parts);
  int64_t best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t chunks = 1; chunks <= kMostChunks; chunks *= 2) {
    if (rows.part % chunks != 0)
      break;
    double work = 0;
    for (nn::MatmulOp op : products) {
      int64_t columns = nn::shapeOf(op.getResult()).back();
      work += workOf(op, rates) *
              double(tiles.wavesOf(rows.all() / chunks, columns)) /
              double(tiles.wavesOf(rows.all(), columns));
    }
    double each = sent / double(chunks);
    double time = each + double(chunks - 1) * std::max(each, work) + work;
    if (chunks > 1)
      time += copied / rates.moved + double(chunks) * bytesPerChunk;
    if (asked == chunks)
      return chunks;
    if (time < least) {
      least = time;
      best = chunks;
    }
  }
  return asked == 0 ? best : 1;
}

//===----------------------------------------------------------------------===//
// Chunks of rows
//===----------------------------------------------------------------------===//

namespace {

/// Builds ops that stand where another one does.
class Builder {
public:
  explicit Builder(Operation *like)
      : builder(like), b(builder, like->getLoc()), like(like) {}

  Value reshape(Value value, ArrayRef<int64_t> shape) {
    return placed(b.reshape(value, shape), value);
  }
  /// Of dimension `dim`, `size` indices from `offset` on.
  Value slice(Value value, int64_t dim, int64_t offset, int64_t size) {
    return placed(b.slice(value, dim, offset, size), value);
  }
  Value concat(ValueRange values, int64_t dim) {
    return placed(nn::ConcatOp::create(builder, like->getLoc(), values, dim),
                  values.front());
  }
  /// The op on other rows.
  Value clone(Operation *op, Value rows, ArrayRef<int64_t> shape) {
    Operation *copy = builder.clone(*op);
    copy->setOperand(0, rows);
    Type element = nn::elementType(op->getResult(0));
    copy->getResult(0).setType(RankedTensorType::get(shape, element));
    return copy->getResult(0);
  }
  /// …of which [outer, whole, width] is exchanged along the middle.
  Value exchange(Operation *op, Value value, int64_t whole,
                 ArrayRef<int64_t> shape) {
    Value result = clone(op, value, shape);
    result.getDefiningOp()->setAttr("dim", builder.getI64IntegerAttr(1));
    result.getDefiningOp()->setAttr("sections",
                                    builder.getDenseI64ArrayAttr(whole));
    return result;
  }

private:
  /// What was made of a value, if it is another one.
  Value placed(Value made, Value of) {
    if (made != of && nn::placeOf(like))
      nn::inheritPlace(made.getDefiningOp(), like);
    return made;
  }

  OpBuilder builder;
  nn::NNBuilder b;
  Operation *like;
};

} // namespace

// Whether linear layers alone read the gathered rows, which it collects.
static bool collectReaders(Value gathered, const Rows &rows,
                           SmallVectorImpl<nn::MatmulOp> &products) {
  return llvm::all_of(gathered.getUses(), [&](OpOperand &use) {
    if (auto reshape = dyn_cast<nn::ReshapeOp>(use.getOwner()))
      return collectReaders(reshape.getResult(), rows, products);
    auto product = dyn_cast<nn::MatmulOp>(use.getOwner());
    if (!isLinear(product) || use.getOperandNumber() != 0 ||
        nn::shapeOf(gathered) != ArrayRef<int64_t>{rows.all(), rows.width})
      return false;
    products.push_back(product);
    return true;
  });
}

static void eraseUnread(Operation *op) {
  for (Operation *user : llvm::make_early_inc_range(op->getUsers()))
    eraseUnread(user);
  op->erase();
}

void Chunks::cut(nn::AllGatherOp gather) {
  std::optional<Rows> rows =
      rowsOf(nn::shapeOf(gather.getResult()), gather.getDim(),
             gather.getParts(), gather.getSections());
  SmallVector<nn::MatmulOp> products;
  if (!rows || !gather.getVaries() ||
      !collectReaders(gather.getResult(), *rows, products) || products.empty())
    return;
  double copied = 0; // the joined rows
  for (nn::MatmulOp op : products)
    copied += 2 * bytesOf(op->getResults());
  int64_t chunks = bestOf(gather, products, *rows, copied);
  if (chunks == 1)
    return;
  auto [outer, part, parts, width] = *rows;
  int64_t each = part / chunks, whole = each * parts;
  Builder before(gather);
  Value mine = before.reshape(gather.getOperand(), {outer, part, width});
  SmallVector<Value> gathered;
  for (int64_t at = 0; at < part; at += each)
    gathered.push_back(
        before.reshape(before.exchange(gather, before.slice(mine, 1, at, each),
                                       whole, {outer, whole, width}),
                       {outer * whole, width}));
  for (nn::MatmulOp op : products) {
    Builder builder(op);
    int64_t columns = nn::shapeOf(op.getResult()).back();
    SmallVector<Value> results;
    for (Value piece : gathered)
      results.push_back(
          builder.reshape(builder.clone(op, piece, {outer * whole, columns}),
                          {outer * parts, each, columns}));
    Value joined =
        builder.reshape(builder.concat(results, 1), {rows->all(), columns});
    op.getResult().replaceAllUsesWith(joined);
    op.erase();
  }
  eraseUnread(gather);
}

void Chunks::cut(nn::ReduceScatterOp sum) {
  std::optional<Rows> rows = rowsOf(nn::shapeOf(sum.getOperand()), sum.getDim(),
                                    sum.getParts(), sum.getSections());
  auto reshape = sum.getOperand().getDefiningOp<nn::ReshapeOp>();
  if (reshape && !reshape->hasOneUse())
    return;
  auto op = (reshape ? reshape.getOperand() : sum.getOperand())
                .getDefiningOp<nn::MatmulOp>();
  if (!rows || !isLinear(op) || !op->hasOneUse() ||
      nn::shapeOf(op.getResult()) !=
          ArrayRef<int64_t>{rows->all(), rows->width})
    return;
  // Rows of chunks out of those of ranks, and this rank's sums joined.
  double copied = 2 * (bytesOf(op.getLhs()) + bytesOf(sum->getResults()));
  int64_t chunks = bestOf(sum, op, *rows, copied);
  if (chunks == 1)
    return;
  auto [outer, part, parts, width] = *rows;
  int64_t each = part / chunks, whole = each * parts;
  int64_t depth = nn::shapeOf(op.getLhs()).back();
  Builder builder(sum);
  Value lhs = builder.reshape(op.getLhs(), {outer * parts, part, depth});
  SmallVector<Value> sums;
  for (int64_t at = 0; at < part; at += each) {
    Value piece = builder.reshape(builder.slice(lhs, 1, at, each),
                                  {outer * whole, depth});
    Value result = builder.clone(op, piece, {outer * whole, width});
    sums.push_back(
        builder.exchange(sum, builder.reshape(result, {outer, whole, width}),
                         whole, {outer, each, width}));
  }
  Value joined =
      builder.reshape(builder.concat(sums, 1), nn::shapeOf(sum.getResult()));
  sum.getResult().replaceAllUsesWith(joined);
  sum.erase();
  if (reshape)
    reshape.erase();
  op.erase();
}

namespace {

struct ChunkAxesPass : public fsdp::impl::ChunkAxesPassBase<ChunkAxesPass> {
  using ChunkAxesPassBase::ChunkAxesPassBase;

  void runOnOperation() override {
    Chunks cut({flopsPerByteSent, movedPerByteSent},
               {processors, tileRows, tileColumns}, bytesPerChunk, chunks);
    for (func::FuncOp function : stepFunctions(getOperation())) {
      // Those of backward have gradients of weights beside them.
      SmallVector<Operation *> collectives;
      for (Operation &op : function.front())
        if (isa<nn::AllGatherOp, nn::ReduceScatterOp>(op) &&
            nn::phaseOf(&op) != nn::Phase::backward)
          collectives.push_back(&op);
      for (Operation *op : collectives) {
        if (auto gather = dyn_cast<nn::AllGatherOp>(op))
          cut.cut(gather);
        else
          cut.cut(cast<nn::ReduceScatterOp>(op));
      }
    }
  }
};

} // namespace
