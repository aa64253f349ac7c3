// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// exec-reuse-in-place: a call that reads a buffer for the last time writes its
// result there, if it reads each element before it writes it.

#include "shardonnx/Dialect/Exec/Transforms/Lifetimes.h"
#include "shardonnx/Dialect/Exec/Transforms/Passes.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"

namespace shardonnx::exec {
#define GEN_PASS_DEF_REUSEINPLACEPASS
#include "shardonnx/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace shardonnx::exec

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

namespace {

// First and last uses of the allocs of one function.
class Uses {
public:
  explicit Uses(func::FuncOp function);
  /// Redirects the alloc that `op` writes first to what `input` lies in, which
  /// nothing reads after `op`.
  bool reuse(Operation &op, Value input, Value output);

private:
  struct Span {
    unsigned first = UINT_MAX, last = 0;
  };
  bool diesAt(Operation &op, Value input);

  llvm::DenseMap<Operation *, unsigned> positions;
  llvm::DenseMap<Value, Span> spans; // by alloc
};

class ReuseInPlace : public exec::impl::ReuseInPlacePassBase<ReuseInPlace> {
public:
  void runOnOperation() override;

private:
  void run(LaunchOp launch, KernelOp kernel, Uses &uses);
};

} // namespace

Uses::Uses(func::FuncOp function) {
  unsigned position = 0;
  for (Operation &op : function.front()) {
    positions[&op] = ++position;
    if (isa<ViewOp>(op))
      continue;
    for (Value operand : op.getOperands()) {
      Span &span = spans[rootOf(operand)];
      span.first = std::min(span.first, position);
      span.last = position;
    }
  }
}

// Is `op` the last to use the memory of `input`, and does it use it once?
bool Uses::diesAt(Operation &op, Value input) {
  Value root = rootOf(input);
  auto type = cast<MemRefType>(input.getType());
  if (!root.getDefiningOp<AllocOp>() || !isContiguous(type) ||
      type.getNumElements() !=
          cast<MemRefType>(root.getType()).getNumElements() ||
      spans[root].last != positions.lookup(&op))
    return false;
  return llvm::count_if(op.getOperands(), [&](Value operand) {
           return rootOf(operand) == root;
         }) == 1;
}

bool Uses::reuse(Operation &op, Value input, Value output) {
  auto alloc = output.getDefiningOp<AllocOp>();
  if (!alloc || output.getType() != input.getType() ||
      spans[output].first != positions.lookup(&op) || !diesAt(op, input))
    return false;
  spans[rootOf(input)].last = spans[output].last;
  // What views the output may stand before the input's view.
  for (Operation *user : llvm::make_early_inc_range(output.getUsers()))
    if (isa<ViewOp>(user) && positions.lookup(user) < positions.lookup(&op))
      user->moveBefore(&op);
  output.replaceAllUsesWith(input);
  alloc.erase();
  return true;
}

// A kernel reads an element of a row before it writes the same element; with
// several outputs, only if it goes over each row once (no reductions of a row).
static bool writesInOrder(KernelOp kernel) {
  if (kernel.getKind() != nn::FusedKind::rows)
    return false;
  Block &body = kernel.getBody().front();
  bool reduces = llvm::any_of(body, [](Operation &op) {
    return nn::isReduction(&op) && !nn::sumsRows(&op);
  });
  return !reduces || body.getTerminator()->getNumOperands() == 1;
}

void ReuseInPlace::run(LaunchOp launch, KernelOp kernel, Uses &uses) {
  if (!writesInOrder(kernel))
    return;
  int64_t domain = 1;
  for (int64_t size : kernel.getDomain())
    domain *= size;
  for (Value output : llvm::to_vector(launch.getOutputs())) {
    // Neither side may be broadcast over the domain.
    if (cast<MemRefType>(output.getType()).getNumElements() != domain)
      continue;
    for (Value input : launch.getInputs())
      if (uses.reuse(*launch, input, output))
        break;
  }
}

void ReuseInPlace::runOnOperation() {
  SymbolTable symbols(getOperation());
  for (func::FuncOp function : stepFunctions(getOperation())) {
    Uses uses(function);
    for (Operation &op : llvm::make_early_inc_range(function.front())) {
      if (auto launch = dyn_cast<LaunchOp>(op))
        run(launch, symbols.lookup<KernelOp>(launch.getKernel()), uses);
      else if (auto call = dyn_cast<RuntimeCallOpInterface>(op))
        for (auto [input, output] : call.getInPlacePairs())
          uses.reuse(op, input, output);
    }
  }
}
