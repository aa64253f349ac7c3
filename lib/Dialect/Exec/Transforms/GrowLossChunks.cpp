// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// exec-grow-loss-chunks: a loss in chunks of rows begins with the fewest rows
// that do not cost speed. Where the function's peak is elsewhere, memory is
// left over at the loss: larger chunks make larger products of it.

#include "shardonnx/Dialect/Exec/Transforms/Lifetimes.h"
#include "shardonnx/Dialect/Exec/Transforms/Passes.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Workspace.h"

#include "mlir/IR/Builders.h"
#include "shardonnx/Dialect/Exec/IR/Exec.h"

namespace shardonnx::exec {
#define GEN_PASS_DEF_GROWLOSSCHUNKSPASS
#include "shardonnx/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace shardonnx::exec

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

// Bytes that live at each position of the function's block.
static std::vector<int64_t> liveBytes(func::FuncOp function) {
  Lifetimes lifetimes = bufferLifetimes(function, Space::private_);
  std::vector<int64_t> live(function.front().getOperations().size() + 2);
  for (const PlanItem &item : lifetimes.items)
    for (const LiveRange &range : item.live)
      for (int64_t time = range.begin; time < range.end; ++time)
        live[size_t(time)] += item.bytes;
  return live;
}

// The largest chunk whose workspace has no more than `bytes`.
static int64_t rowsWithin(LinearCrossEntropyOp op, int64_t bytes,
                          const LibraryModel &libraries) {
  constexpr int64_t kStep = 128; // rows of a GPU's tile
  ShxLinearCrossEntropy desc = op.getDescriptor();
  int64_t rows = desc.chunkRows;
  while (rows < desc.rows) {
    int64_t more = std::min(desc.rows, alignTo(rows + 1, kStep));
    if (op.getWorkspaceBytes(libraries, more) > bytes)
      break;
    rows = more;
  }
  // As few chunks of nearly equal size.
  int64_t chunks = (desc.rows + rows - 1) / rows;
  return std::min(desc.rows, alignTo((desc.rows + chunks - 1) / chunks, 16));
}

static void grow(LinearCrossEntropyOp op, int64_t slack,
                 const LibraryModel &libraries) {
  Operation *space = op.getWorkspace().getDefiningOp();
  auto type = cast<MemRefType>(op.getWorkspace().getType());
  int64_t rows = rowsWithin(op, type.getNumElements() + slack, libraries);
  if (rows <= int64_t(op.getChunkRows()))
    return;
  op.setChunkRows(rows);
  int64_t bytes = op.getWorkspaceBytes(libraries);
  OpBuilder builder(space);
  Value larger = AllocOp::create(builder, space->getLoc(),
                                 MemRefType::get(bytes, builder.getI8Type()));
  op.getWorkspaceMutable().assign(larger);
  space->erase();
}

namespace {

struct GrowLossChunks : exec::impl::GrowLossChunksPassBase<GrowLossChunks> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    const LibraryModel &libraries =
        isCuda(module) ? cudaLibraries() : cpuLibraries();
    int64_t peak = 0;
    for (func::FuncOp function : stepFunctions(module))
      for (int64_t bytes : liveBytes(function))
        peak = std::max(peak, bytes);
    for (func::FuncOp function : stepFunctions(module)) {
      std::vector<int64_t> live = liveBytes(function);
      int64_t time = 0;
      for (Operation &op : llvm::make_early_inc_range(function.front())) {
        ++time;
        auto loss = dyn_cast<LinearCrossEntropyOp>(op);
        if (loss && loss.getWorkspace())
          grow(loss, peak - live[size_t(time)], libraries);
      }
    }
  }
};

} // namespace
