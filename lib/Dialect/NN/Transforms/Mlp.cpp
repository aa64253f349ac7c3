// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds MLPs from their first products on, in graphs with kernels or without.

#include "Mlp.h"

#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

std::optional<size_t> nn::leadingRows(ArrayRef<int64_t> shape, int64_t rows) {
  int64_t product = 1;
  for (auto [axis, size] : llvm::enumerate(shape)) {
    product *= size;
    if (product == rows)
      return axis + 1;
    if (product > rows)
      break;
  }
  return std::nullopt;
}

RowShape nn::rowShapeOf(ArrayRef<int64_t> shape, int64_t rows,
                        size_t axesBehind) {
  if (shape.size() <= axesBehind)
    return RowShape::whole;
  int64_t leading = ShapedType::getNumElements(shape.drop_back(axesBehind));
  return leading == rows ? RowShape::rows
         : leading == 1  ? RowShape::whole
                         : RowShape::neither;
}

std::optional<LinearProduct> nn::linearProduct(Operation *op) {
  std::optional<LinearProduct> product;
  if (auto matmul = dyn_cast_or_null<MatmulOp>(op))
    product = {matmul.getLhs(), matmul.getRhs(), Value(),
               matmul.getTransposeLhs(), matmul.getTransposeRhs()};
  else if (auto call = dyn_cast_or_null<MatmulEpilogueOp>(op))
    product = {call.getLhs(), call.getRhs(), call.getSide(),
               call.getTransposeLhs(), call.getTransposeRhs()};
  if (product && (rankOf(product->lhs) != 2 || rankOf(product->rhs) != 2))
    return std::nullopt;
  return product;
}

namespace {

class Finder {
public:
  Finder(Operation *seed, MlpReaders readers)
      : seed(seed), readers(readers), unit(unitOf(seed)) {}

  std::optional<Mlp> run();

private:
  bool take(Operation *op);
  bool takeOperand(Value value);
  bool takeProduct(Operation *op, const LinearProduct &product);
  bool takeSide(MatmulEpilogueOp op);
  bool takeKernel(Operation *op, ArrayRef<int64_t> domain);
  bool takeView(Operation *op);
  bool isBody(FusedOp kernel, size_t axesBehind) const;
  void addRows(Value value, bool isHidden);

  Operation *seed;
  MlpReaders readers;
  FlatSymbolRefAttr unit;
  Mlp mlp;
  llvm::SetVector<Operation *> ops;
  SmallVector<Value> hidden; // whose readers are yet to be taken
  bool hasKernel = false, isRead = false;
};

} // namespace

void Finder::addRows(Value value, bool isHidden) {
  mlp.byRows.insert(value);
  if (isHidden)
    hidden.push_back(value);
}

// What a kernel reads of rows has been made of rows by linear layers alone: of
// a residual stream, or of a mask, it may be another MLP's or nobody's.
bool Finder::takeOperand(Value value) {
  if (mlp.byRows.contains(value))
    return true;
  Operation *op = value.getDefiningOp();
  return op && take(op);
}

bool Finder::takeSide(MatmulEpilogueOp op) {
  Value side = op.getSide();
  if (!side || rankOf(side) == 1)
    return true;
  if (op.getEpilogue() == Epilogue::dgelu)
    return takeOperand(side);
  // What the product is added to lives for it alone, or is the residual stream.
  std::optional<LinearProduct> other = linearProduct(side.getDefiningOp());
  if (other && side.hasOneUse() && !other->transposeLhs)
    return takeOperand(side);
  return shapeOf(side).front() == mlp.rows;
}

bool Finder::takeProduct(Operation *op, const LinearProduct &product) {
  auto call = dyn_cast<MatmulEpilogueOp>(op);
  bool known = mlp.byRows.contains(product.lhs);
  if (shapeOf(product.lhs).front() != mlp.rows)
    return false;
  if (product.transposeLhs) {
    // A sum over the rows: the gradient of a weight.
    isRead = true;
    return !product.transposeRhs && !product.side &&
           shapeOf(product.rhs).front() == mlp.rows &&
           (!call || call.getEpilogue() == Epilogue::bgrad);
  }
  if (mlp.byRows.contains(product.rhs) ||
      (call && call.getEpilogue() == Epilogue::bgrad))
    return false;
  if (call && !takeSide(call))
    return false;
  isRead |= known;
  addRows(op->getResult(0), /*isHidden=*/!known);
  // What comes before the activation is as wide as that.
  if (op->getNumResults() == 2)
    addRows(op->getResult(1), /*isHidden=*/true);
  bool activates = call && call.getEpilogue() != Epilogue::bias;
  hasKernel |= activates;
  if (activates && known)
    hidden.push_back(op->getResult(0));
  return true;
}

// What the kernel computes needs no more than its row, nor where that is.
bool Finder::isBody(FusedOp kernel, size_t axesBehind) const {
  WalkResult walk = kernel.getBody().walk([&](Operation *op) {
    for (Value value : op->getResults()) {
      RowShape shape = rowShapeOf(shapeOf(value), mlp.rows, axesBehind);
      if (shape == RowShape::neither ||
          (shape == RowShape::rows && isa<IotaOp>(op)))
        return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  // What has no rows is added up over them.
  auto yield = cast<YieldOp>(kernel.getBody().front().getTerminator());
  return !walk.wasInterrupted() &&
         llvm::all_of(yield.getResults(), [&](Value value) {
           return rowShapeOf(shapeOf(value), mlp.rows, axesBehind) ==
                      RowShape::rows ||
                  value.getDefiningOp<ReduceSumOp>();
         });
}

bool Finder::takeKernel(Operation *op, ArrayRef<int64_t> domain) {
  std::optional<size_t> leading = leadingRows(domain, mlp.rows);
  if (!leading)
    return false;
  size_t behind = domain.size() - *leading;
  auto kernel = dyn_cast<FusedOp>(op);
  if (kernel && !isBody(kernel, behind))
    return false;
  for (Value operand : op->getOperands()) {
    RowShape shape = rowShapeOf(shapeOf(operand), mlp.rows, behind);
    if (shape == RowShape::neither ||
        (shape == RowShape::rows && !takeOperand(operand)))
      return false;
  }
  for (Value result : op->getResults())
    if (rowShapeOf(shapeOf(result), mlp.rows, behind) == RowShape::rows)
      addRows(result, /*isHidden=*/true);
    else if (!kernel)
      return false;
  hasKernel = true;
  return true;
}

// Columns of the rows, or the rows under other axes.
bool Finder::takeView(Operation *op) {
  Value result = op->getResult(0);
  std::optional<size_t> leading = leadingRows(shapeOf(result), mlp.rows);
  if (!leading)
    return false;
  if (auto slice = dyn_cast<SliceOp>(op))
    if (shapeOf(slice.getOperand()).take_front(*leading) !=
        shapeOf(result).take_front(*leading))
      return false;
  if (auto concat = dyn_cast<ConcatOp>(op))
    if (concat.getAxis() < *leading)
      return false;
  for (Value operand : op->getOperands())
    if (!leadingRows(shapeOf(operand), mlp.rows) || !takeOperand(operand))
      return false;
  addRows(result, /*isHidden=*/true);
  return true;
}

bool Finder::take(Operation *op) {
  if (ops.contains(op))
    return true;
  if (op->getBlock() != seed->getBlock() || unitOf(op) != unit)
    return false;
  ops.insert(op);
  if (std::optional<LinearProduct> product = linearProduct(op))
    return takeProduct(op, *product);
  if (auto kernel = dyn_cast<FusedOp>(op))
    return takeKernel(op, kernel.getDomain());
  if (isa<ReshapeOp, SliceOp, ConcatOp>(op))
    return takeView(op);
  if (isa<ElementwiseOpInterface>(op) && op->getNumResults() == 1)
    return takeKernel(op, shapeOf(op->getResult(0)));
  return false;
}

std::optional<Mlp> Finder::run() {
  std::optional<LinearProduct> first = linearProduct(seed);
  if (!first || first->transposeLhs)
    return std::nullopt;
  mlp.rows = shapeOf(first->lhs).front();
  if (mlp.rows < 2 || !take(seed))
    return std::nullopt;
  while (!hidden.empty()) {
    Value value = hidden.pop_back_val();
    for (Operation *reader : value.getUsers())
      if (!(readers == MlpReaders::forward && isBackward(reader)) &&
          !take(reader))
        return std::nullopt;
  }
  if (!hasKernel || !isRead)
    return std::nullopt;
  mlp.ops = ops.takeVector();
  llvm::sort(mlp.ops,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return std::move(mlp);
}

SmallVector<Mlp> nn::findMlps(Block &block, MlpReaders readers) {
  SmallVector<Mlp> found;
  llvm::DenseSet<Operation *> taken;
  for (Operation &op : block) {
    if (taken.contains(&op) || !linearProduct(&op) ||
        (readers == MlpReaders::forward && phaseOf(&op) != Phase::forward))
      continue;
    std::optional<Mlp> mlp = Finder(&op, readers).run();
    if (!mlp || llvm::any_of(mlp->ops, [&](Operation *member) {
          return taken.contains(member);
        }))
      continue;
    taken.insert(mlp->ops.begin(), mlp->ops.end());
    found.push_back(std::move(*mlp));
  }
  return found;
}
