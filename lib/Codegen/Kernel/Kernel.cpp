// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The canonical form of a kernel: axes dropped, merged and ordered, so that the
// emitters handle as few shapes of loop nest as there are shapes of access.

#include "shardonnx/Codegen/Kernel/Kernel.h"
#include "shardonnx/Dialect/Exec/IR/Exec.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

/// The smallest chunks worth a thread: a row kernel's in elements, a column
/// kernel's in columns (four cache lines of f32, read one behind the other).
static constexpr int64_t kRowGrainElements = 4096;
static constexpr int64_t kFlatGrain = 4096;
static constexpr int64_t kColumnGrain = 64;

/// Strides of a buffer along each axis of the domain, by NumPy's alignment.
static FailureOr<BufferLayout> layoutOf(MemRefType type,
                                        ArrayRef<int64_t> domain) {
  BufferLayout layout;
  layout.elementType = type.getElementType();
  SmallVector<int64_t> strides;
  if (failed(type.getStridesAndOffset(strides, layout.offset)) ||
      ShapedType::isDynamic(layout.offset) ||
      llvm::any_of(strides, ShapedType::isDynamic))
    return failure();
  size_t rank = type.getRank(), lead = domain.size() - rank;
  if (rank > domain.size())
    return failure();
  layout.strides.assign(domain.size(), 0);
  for (size_t i = 0; i < rank; ++i) {
    int64_t size = type.getDimSize(i);
    if (size != 1 && size != domain[lead + i])
      return failure();
    if (size != 1)
      layout.strides[lead + i] = strides[i];
  }
  return layout;
}

FailureOr<Kernel> Kernel::get(nn::FusedKind kind, ArrayRef<int64_t> domain,
                              Block &body, ArrayRef<MemRefType> memrefTypes) {
  Kernel kernel;
  kernel.body = &body;
  kernel.sizes.assign(domain.begin(), domain.end());
  if (kernel.sizes.empty())
    kernel.sizes.push_back(1);
  kernel.axisOf = llvm::to_vector(llvm::map_range(
      llvm::seq<int>(0, kernel.sizes.size()), [](int i) { return i; }));
  if (memrefTypes.size() !=
      body.getNumArguments() + body.getTerminator()->getNumOperands())
    return failure();
  for (MemRefType type : memrefTypes) {
    FailureOr<BufferLayout> layout = layoutOf(type, kernel.sizes);
    if (failed(layout))
      return failure();
    kernel.buffers.push_back(*layout);
  }
  kernel.hasReductions =
      llvm::any_of(body, [](Operation &op) { return nn::isReduction(&op); });
  kernel.mode = kind == nn::FusedKind::columns ? Mode::Columns : Mode::Rows;
  kernel.dropUnitAxes();
  if (kernel.mode == Mode::Rows && !kernel.hasReductions)
    kernel.chooseVectorAxis();
  kernel.mergeAxes();
  if (kernel.mode == Mode::Rows && !kernel.hasReductions &&
      kernel.sizes.size() == 1)
    kernel.mode = Mode::Flat;
  kernel.classify();
  return kernel;
}

int64_t Kernel::getRowCount() const {
  int64_t count = 1;
  for (int64_t size : getLeadingSizes())
    count *= size;
  return count;
}

SmallVector<Operation *> Kernel::getColumnSums() const {
  SmallVector<Operation *> sums;
  for (Operation &op : body->without_terminator())
    if (mode == Mode::Columns ? nn::isReduction(&op) : nn::sumsRows(&op))
      sums.push_back(&op);
  return sums;
}

SmallVector<Operation *> Kernel::getTensorSteps() const {
  SmallVector<Operation *> steps;
  for (Operation &op : body->without_terminator())
    if (nn::isTensorStep(&op))
      steps.push_back(&op);
  return steps;
}

bool Kernel::isStored(Value yielded) const {
  Operation *op = yielded.getDefiningOp();
  return !op || !(nn::sumsRows(op) || nn::isTensorStep(op));
}

KernelLaunch Kernel::getLaunch() const {
  switch (mode) {
  case Mode::Flat:
    return {getRowLength(), kFlatGrain};
  case Mode::Columns:
    return {getRowLength(), kColumnGrain};
  case Mode::Rows:
    return {getRowCount(),
            std::max<int64_t>(1, kRowGrainElements / getRowLength())};
  }
  llvm_unreachable("all modes handled");
}

std::optional<unsigned> Kernel::getIotaAxis(nn::IotaOp op) const {
  int64_t rank = cast<RankedTensorType>(op.getType()).getRank();
  int64_t axis = op.getAxis() + static_cast<int64_t>(axisOf.size()) - rank;
  int canonical = axisOf[axis];
  if (canonical < 0)
    return std::nullopt;
  return canonical;
}

void Kernel::removeAxis(unsigned axis) {
  sizes.erase(sizes.begin() + axis);
  for (BufferLayout &buffer : buffers)
    buffer.strides.erase(buffer.strides.begin() + axis);
  for (int &canonical : axisOf) {
    if (canonical == static_cast<int>(axis))
      canonical = -1;
    else if (canonical > static_cast<int>(axis))
      --canonical;
  }
}

void Kernel::dropUnitAxes() {
  // The vector axis stays where a reduction runs along it or over the others.
  bool keepLast = hasReductions;
  for (int axis = sizes.size() - 1; axis >= 0; --axis) {
    bool last = axis == static_cast<int>(sizes.size()) - 1;
    if (sizes[axis] == 1 && sizes.size() > 1 && !(keepLast && last))
      removeAxis(axis);
  }
}

/// Without reductions any axis may be the vector axis: take the one along which
/// most elements are contiguous (a store weighs double), the later at a tie.
void Kernel::chooseVectorAxis() {
  auto scoreOf = [&](unsigned axis) {
    double score = 0;
    for (auto [i, buffer] : llvm::enumerate(buffers)) {
      if (buffer.strides[axis] != 1)
        continue;
      double elements = i < getNumInputs() ? 1 : 2;
      for (auto [size, stride] : llvm::zip(sizes, buffer.strides))
        elements *= stride == 0 ? 1 : double(size);
      score += elements * double(std::min<int64_t>(sizes[axis], 8));
    }
    return score;
  };
  unsigned last = sizes.size() - 1, best = last;
  for (int axis = last - 1; axis >= 0; --axis)
    if (scoreOf(axis) > scoreOf(best))
      best = axis;
  if (best == last)
    return;
  auto rotate = [&](auto &list) {
    std::rotate(list.begin() + best, list.begin() + best + 1, list.end());
  };
  rotate(sizes);
  for (BufferLayout &buffer : buffers)
    rotate(buffer.strides);
  for (int &canonical : axisOf) {
    if (canonical == static_cast<int>(best))
      canonical = last;
    else if (canonical > static_cast<int>(best))
      --canonical;
  }
}

/// Axes outer and outer + 1 are one if every buffer walks them as one.
bool Kernel::mayMerge(unsigned outer) const {
  bool intoVectorAxis = outer + 2 == sizes.size();
  if (intoVectorAxis && hasReductions)
    return false;
  for (Operation &op : *body)
    if (auto iota = dyn_cast<nn::IotaOp>(op)) {
      std::optional<unsigned> axis = getIotaAxis(iota);
      if (axis && (*axis == outer || *axis == outer + 1))
        return false;
    }
  return llvm::all_of(buffers, [&](const BufferLayout &buffer) {
    return buffer.strides[outer] ==
           buffer.strides[outer + 1] * sizes[outer + 1];
  });
}

void Kernel::mergeAxes() {
  for (int outer = static_cast<int>(sizes.size()) - 2; outer >= 0; --outer) {
    if (!mayMerge(outer))
      continue;
    sizes[outer + 1] *= sizes[outer];
    removeAxis(outer);
  }
}

void Kernel::classify() {
  unsigned vectorAxis = sizes.size() - 1;
  for (BlockArgument argument : body->getArguments())
    if (buffers[argument.getArgNumber()].strides[vectorAxis] == 0)
      uniform.insert(argument);
  for (Operation &op : body->without_terminator()) {
    bool same = llvm::all_of(op.getOperands(),
                             [&](Value v) { return uniform.contains(v); });
    if (auto iota = dyn_cast<nn::IotaOp>(op))
      same = getIotaAxis(iota) != std::optional<unsigned>(vectorAxis);
    if (nn::isReduction(&op))
      same = mode == Mode::Rows && !nn::sumsRows(&op);
    if (same && !nn::isTensorStep(&op))
      uniform.insert(op.getResult(0));
  }
}

FailureOr<Kernel> kernels::describeKernel(exec::KernelOp op) {
  SmallVector<MemRefType> types;
  for (Attribute type : op.getOperandTypes())
    types.push_back(cast<MemRefType>(cast<TypeAttr>(type).getValue()));
  return Kernel::get(op.getKind(), op.getDomain(), op.getBody().front(), types);
}
