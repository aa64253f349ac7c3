// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See AxisWaits.h.

#include "shardonnx/Dialect/Exec/Transforms/AxisWaits.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

namespace {

/// Elements of a root that a buffer lies between.
struct Extent {
  Value root;
  int64_t begin = 0, end = 0;
  bool overlaps(const Extent &other) const {
    return root == other.root && begin < other.end && other.begin < end;
  }
};

/// What one op reads and writes.
struct Touched {
  explicit Touched(Operation &op);
  SmallVector<Extent> read, written;
};

} // namespace

static Extent extentOf(Value buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  Extent extent{buffer, 0, spanOf(type)};
  while (auto view = extent.root.getDefiningOp<ViewOp>()) {
    extent.root = view.getSource();
    extent.begin += view.getOffset();
    extent.end += view.getOffset();
  }
  return extent;
}

// Memory that the op has for itself has no effect: it counts as written.
Touched::Touched(Operation &op) {
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  for (Value operand : op.getOperands()) {
    if (!isa<MemRefType>(operand.getType()))
      continue;
    SmallVector<MemoryEffects::EffectInstance> list;
    if (effects)
      effects.getEffectsOnValue(operand, list);
    bool reads =
        llvm::all_of(list, [](const MemoryEffects::EffectInstance &effect) {
          return isa<MemoryEffects::Read>(effect.getEffect());
        });
    (reads && !list.empty() ? read : written).push_back(extentOf(operand));
  }
}

/// Ops on a unit touch its parameters or gradients as a whole.
static bool touchesUnit(Operation &op, AxisStartOp start) {
  auto unit = op.getAttrOfType<FlatSymbolRefAttr>("unit");
  return unit && llvm::any_of(start->getOperands(), [&](Value operand) {
           auto buffer = rootOf(operand).getDefiningOp<BufferOp>();
           return buffer && buffer.getSymbolAttr() == unit;
         });
}

bool exec::mustAwait(Operation &op, AxisStartOp start) {
  if (isa<BufferOp, AllocOp, ViewOp>(op))
    return false;
  auto overlapsAny = [](const Touched &of, const Extent &extent, bool reads) {
    auto overlaps = [&](const Extent &other) { return extent.overlaps(other); };
    return llvm::any_of(of.written, overlaps) ||
           (reads && llvm::any_of(of.read, overlaps));
  };
  Touched touched(op), started(*start);
  return touchesUnit(op, start) ||
         llvm::any_of(started.written,
                      [&](const Extent &extent) {
                        return overlapsAny(touched, extent, /*reads=*/true);
                      }) ||
         llvm::any_of(started.read, [&](const Extent &extent) {
           return overlapsAny(touched, extent, /*reads=*/false);
         });
}
