// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-chunk-mlps: MLPs are computed some rows at a time, forward and backward,
// so that the hidden values of one chunk live at a time.

#include "Mlp.h"

#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/RaiseReport.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/Support/UsageError.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_CHUNKMLPSPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

/// The shape of every chunk of a shape whose leading axes are the rows: what
/// has rows has them all, so they may lie under one axis.
static SmallVector<int64_t> chunkShape(ArrayRef<int64_t> shape, size_t leading,
                                       int64_t rows) {
  SmallVector<int64_t> result(shape);
  for (size_t axis = 0; axis < leading; ++axis)
    result[axis] = axis + 1 == leading ? rows : 1;
  return result;
}

/// Of numbers of chunks that can be had the nearest; of two the larger.
static int64_t nearestThatDivides(int64_t rows, int64_t chunks) {
  for (int64_t away = 1; away < std::max(chunks, rows); ++away)
    for (int64_t other : {chunks + away, chunks - away})
      if (other > 1 && rows % other == 0)
        return other;
  return rows;
}

namespace {

class Cutter {
public:
  Cutter(const Mlp &mlp, int64_t chunks)
      : mlp(mlp), chunks(chunks), each(mlp.rows / chunks),
        inside(mlp.ops.begin(), mlp.ops.end()) {}

  /// Looks at what stands between the MLP's ops: false if one of them needs
  /// what another op makes of their results.
  bool collectLater();
  void cut();

private:
  RankedTensorType chunkType(Value value) const;
  RankedTensorType chunkType(Value value, size_t axesBehind) const;
  bool isInside(Value value) const {
    return inside.contains(value.getDefiningOp());
  }
  Value rowsOf(Value value, int64_t chunk);
  void clone(Operation *op, int64_t chunk);
  void cloneKernel(FusedOp original, FusedOp copy);
  Value join(Value value);
  void sum(Value value);
  void place(Operation *made, Operation *like) const;

  const Mlp &mlp;
  const int64_t chunks, each;
  llvm::SmallDenseSet<Operation *, 16> inside;
  SmallVector<Operation *> later; // what reads results and stands between
  std::optional<OpBuilder> builder;
  IRMapping mapping;                               // of the chunk that is made
  llvm::MapVector<Value, SmallVector<Value>> made; // of each chunk
};

} // namespace

// Ops between the first and the last of the MLP that need its results will move
// behind it.
bool Cutter::collectLater() {
  llvm::SmallDenseSet<Operation *, 16> dependent;
  for (Operation *op = mlp.ops.front(); op != mlp.ops.back();
       op = op->getNextNode()) {
    bool depends = llvm::any_of(op->getOperands(), [&](Value operand) {
      return dependent.contains(operand.getDefiningOp());
    });
    if (inside.contains(op)) {
      if (depends)
        return false;
    } else if (depends || llvm::any_of(op->getOperands(), [&](Value operand) {
                 return isInside(operand);
               })) {
      dependent.insert(op);
      later.push_back(op);
    }
  }
  return llvm::none_of(mlp.ops.back()->getOperands(), [&](Value operand) {
    return dependent.contains(operand.getDefiningOp());
  });
}

RankedTensorType Cutter::chunkType(Value value) const {
  ArrayRef<int64_t> shape = shapeOf(value);
  return RankedTensorType::get(
      chunkShape(shape, *leadingRows(shape, mlp.rows), each),
      elementType(value));
}

// Of a value in a kernel, which has rows or none.
RankedTensorType Cutter::chunkType(Value value, size_t axesBehind) const {
  ArrayRef<int64_t> shape = shapeOf(value);
  if (rowShapeOf(shape, mlp.rows, axesBehind) != RowShape::rows)
    return tensorType(value);
  return RankedTensorType::get(
      chunkShape(shape, shape.size() - axesBehind, each), elementType(value));
}

void Cutter::place(Operation *op, Operation *like) const {
  inheritPlace(op, like);
  setPhase(op, readsBackward(op)                 ? Phase::backward
               : phaseOf(like) == Phase::forward ? Phase::forward
                                                 : Phase::recompute);
}

// The chunk's rows of a matrix that the MLP reads: a view.
Value Cutter::rowsOf(Value value, int64_t chunk) {
  if (Value rows = mapping.lookupOrNull(value))
    return rows;
  Value rows = NNBuilder(*builder, mlp.ops.front()->getLoc())
                   .slice(value, 0, chunk * each, each);
  place(rows.getDefiningOp(), mlp.ops.front());
  mapping.map(value, rows);
  return rows;
}

void Cutter::cloneKernel(FusedOp original, FusedOp copy) {
  ArrayRef<int64_t> domain = original.getDomain();
  size_t leading = *leadingRows(domain, mlp.rows);
  size_t behind = domain.size() - leading;
  copy.setDomain(chunkShape(domain, leading, each));
  Block &body = copy.getBody().front();
  for (BlockArgument argument : body.getArguments())
    argument.setType(chunkType(argument, behind));
  for (Operation &op : body)
    for (Value result : op.getResults())
      result.setType(chunkType(result, behind));
}

void Cutter::clone(Operation *op, int64_t chunk) {
  auto matrixOfRows = [&](Value operand) {
    if (operand && !isInside(operand))
      rowsOf(operand, chunk);
  };
  if (std::optional<LinearProduct> product = linearProduct(op)) {
    matrixOfRows(product->lhs);
    if (product->transposeLhs)
      matrixOfRows(product->rhs);
    if (product->side && rankOf(product->side) == 2)
      matrixOfRows(product->side);
  }
  Operation *copy = builder->clone(*op, mapping);
  for (auto [result, copied] :
       llvm::zip_equal(op->getResults(), copy->getResults())) {
    if (mlp.byRows.contains(result))
      copied.setType(chunkType(result));
    mapping.map(result, copied);
    made[result].push_back(copied);
  }
  if (auto kernel = dyn_cast<FusedOp>(op))
    cloneKernel(kernel, cast<FusedOp>(copy));
  if (auto slice = dyn_cast<SliceOp>(copy))
    slice.setSizes(shapeOf(slice.getResult()));
}

// All rows of a result, each chunk's where they are computed.
Value Cutter::join(Value value) {
  NNBuilder b(*builder, value.getLoc());
  ArrayRef<int64_t> shape = shapeOf(value);
  size_t leading = *leadingRows(shape, mlp.rows);
  SmallVector<Value> parts;
  SmallVector<int64_t> rows{each}, all{mlp.rows};
  rows.append(shape.begin() + leading, shape.end());
  all.append(shape.begin() + leading, shape.end());
  Operation *like = value.getDefiningOp();
  auto placed = [&](Value result, Value of) {
    if (result != of)
      place(result.getDefiningOp(), like);
    return result;
  };
  for (Value part : made.lookup(value))
    parts.push_back(placed(b.reshape(part, rows), part));
  Value joined =
      placed(ConcatOp::create(*builder, b.loc, parts, /*axis=*/0), Value());
  return placed(b.reshape(joined, shape), joined);
}

// In a form in which each chunk's product adds to where the sum is
// (fsdp::summandsOf).
static FusedOp makeSum(OpBuilder &builder, Location loc, ValueRange parts) {
  RankedTensorType type = tensorType(parts.front());
  SmallVector<int64_t> domain(type.getShape());
  auto fused =
      FusedOp::create(builder, loc, type, parts, FusedKind::rows, domain);
  auto *body = new Block();
  fused.getBody().push_back(body);
  OpBuilder inner = OpBuilder::atBlockEnd(body);
  Value total = body->addArgument(type, loc);
  for (size_t part = 1; part < parts.size(); ++part)
    total = AddOp::create(inner, loc, total, body->addArgument(type, loc));
  YieldOp::create(inner, loc, total);
  return fused;
}

// The sum over the chunks. Of a weight that several MLPs share it is a part of
// the sum over these: sums of sums would need places of their own.
void Cutter::sum(Value value) {
  SmallVector<Value> parts = made.lookup(value);
  Operation *reader = value.hasOneUse() ? *value.user_begin() : nullptr;
  SmallVector<Value> shared = rankOf(value) > 1 && reader
                                  ? fsdp::summandsOf(reader)
                                  : SmallVector<Value>();
  if (shared.empty()) {
    FusedOp all = makeSum(*builder, value.getLoc(), parts);
    place(all, value.getDefiningOp());
    value.replaceAllUsesWith(all.getOutputs().front());
    return;
  }
  SmallVector<Value> summands;
  for (Value summand : shared)
    if (summand == value)
      summands.append(parts);
    else
      summands.push_back(summand);
  OpBuilder before(reader);
  FusedOp all = makeSum(before, reader->getLoc(), summands);
  all.setPlaceAttr(placeOf(reader));
  reader->replaceAllUsesWith(all);
  // Where the sum stood right behind the MLP, it is where results are put.
  if (builder->getInsertionPoint() == Block::iterator(reader))
    builder->setInsertionPointAfter(reader);
  reader->erase();
}

void Cutter::cut() {
  Operation *last = mlp.ops.back();
  for (Operation *op : llvm::reverse(later))
    op->moveAfter(last);
  builder.emplace(last->getContext());
  builder->setInsertionPointAfter(last);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    mapping.clear();
    for (Operation *op : mlp.ops)
      clone(op, chunk);
  }
  for (Operation *op : mlp.ops)
    for (Value result : op->getResults()) {
      auto isOutside = [&](OpOperand &use) {
        return !inside.contains(use.getOwner());
      };
      if (llvm::none_of(result.getUses(), isOutside))
        continue;
      // Uses by the chunks are of their own copies.
      if (mlp.byRows.contains(result))
        result.replaceUsesWithIf(join(result), isOutside);
      else
        sum(result);
    }
  for (Operation *op : llvm::reverse(mlp.ops))
    op->erase();
}

namespace {

struct ChunkMlpsPass : nn::impl::ChunkMlpsPassBase<ChunkMlpsPass> {
  using ChunkMlpsPassBase::ChunkMlpsPassBase;

  LogicalResult cutAll(func::FuncOp function, RaiseNotes &notes);
  void runOnOperation() override;

  llvm::StringSet<> words; // of the notes
  bool hasCut = false;
};

} // namespace

// The fewest words that say it: MLPs of forward, once.
LogicalResult ChunkMlpsPass::cutAll(func::FuncOp function, RaiseNotes &notes) {
  for (const Mlp &mlp : findMlps(function.front())) {
    Operation *first = mlp.ops.front();
    if (mlp.rows % chunks != 0)
      return emitUsageError(first)
             << "--mlp-chunks=" << int64_t(chunks) << ": the " << mlp.rows
             << " rows of this MLP cannot be cut into so many equal parts; the "
                "nearest number is "
             << nearestThatDivides(mlp.rows, chunks);
    Cutter cutter(mlp, chunks);
    if (!cutter.collectLater())
      continue;
    std::string what = "MLP in " + std::to_string(chunks) + " chunks of " +
                       std::to_string(mlp.rows / chunks) + " rows";
    if (function.getName() == fsdp::kMicrobatch && !isBackward(first))
      notes.add(first, words.insert(what).first->getKey());
    cutter.cut();
    hasCut = true;
  }
  return success();
}

void ChunkMlpsPass::runOnOperation() {
  if (chunks < 2)
    return;
  ModuleOp module = getOperation();
  RaiseNotes notes;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal() && failed(cutAll(function, notes)))
      return signalPassFailure();
  notes.addTo(module);
  if (!hasCut)
    module.emitWarning("--mlp-chunks=")
        << int64_t(chunks)
        << ": there is no MLP that can be computed in chunks";
}
