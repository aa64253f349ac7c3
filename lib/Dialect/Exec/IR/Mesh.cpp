// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the ranks of one axis of the mesh compute together: MeshABI.h's call.

#include "Calls.h"

#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/runtime/MeshABI.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

/// Of whole tensors; a sum of which each rank keeps a part is split.
static bool isSum(AxisCollectiveOp op) {
  return op.getCall() == SHX_AXIS_ALL_REDUCE;
}

/// Of whole tensors, too, which go from rank to rank.
static bool isWhole(AxisCollectiveOp op) {
  return isSum(op) || op.getCall() == SHX_AXIS_SHIFT;
}

/// Equal sections are as many tensors of one section each, side by side.
static bool areTensors(ArrayRef<int64_t> sections) {
  return llvm::all_equal(sections);
}

static bool isExchange(AxisCollectiveOp op) {
  return op.getCall() == SHX_AXIS_ALL_TO_ALL;
}

/// A dimension's sections, which a call has or not.
static bool sectionsFit(bool wanted, int64_t dim, ArrayRef<int64_t> sections,
                        MemRefType type) {
  return wanted != sections.empty() &&
         (sections.size() <= SHX_MAX_SECTIONS || areTensors(sections)) &&
         dim < std::max<int64_t>(type.getRank(), 1);
}

LogicalResult AxisCollectiveOp::verify() {
  MemRefType from = typeOf(getOperand()), to = typeOf(getResult());
  if (!parseSpelling<MeshAxis>(getAxis()) || int64_t(getParts()) < 2)
    return emitOpError("needs an axis of several ranks");
  if (from.getElementType() != to.getElementType() ||
      (isWhole(*this) && from.getShape() != to.getShape()))
    return emitOpError("needs buffers of one element type, and in a sum or a "
                       "shift of one shape");
  if (!sectionsFit(!isWhole(*this), int64_t(getDim()), getSections(), from) ||
      !sectionsFit(isExchange(*this), int64_t(getJoinDim()), getJoinSections(),
                   to))
    return emitOpError(
        "needs the sections of one dimension where it is no sum or shift, and "
        "of another in an all-to-all");
  if (failed(verifyContiguous(*this, "operand", getOperand())))
    return failure();
  return verifyContiguous(*this, "result", getResult());
}

/// The elements before and behind an index of a dimension.
static std::pair<int64_t, int64_t> around(ArrayRef<int64_t> shape,
                                          int64_t dim) {
  std::pair<int64_t, int64_t> sizes = {1, 1};
  for (auto [axis, size] : llvm::enumerate(shape))
    if (int64_t(axis) != dim)
      (int64_t(axis) < dim ? sizes.first : sizes.second) *= size;
  return sizes;
}

static ShxAxisCollective describe(AxisCollectiveOp op) {
  MemRefType from = typeOf(op.getOperand());
  ShxAxisCollective desc = {};
  desc.outer = desc.inner = desc.joinedInner = 1;
  if (isWhole(op)) {
    desc.sections[0] = from.getNumElements();
    desc.sectionCount = 1;
  } else {
    std::tie(desc.outer, desc.inner) =
        around(from.getShape(), int64_t(op.getDim()));
    ArrayRef<int64_t> sections = op.getSections();
    if (areTensors(sections)) {
      size_t each = op.getZigzag() ? 2 : 1;
      desc.outer *= int64_t(sections.size() / each);
      sections = sections.take_front(each);
    }
    llvm::copy(sections, desc.sections);
    desc.sectionCount = int32_t(sections.size());
  }
  if (isExchange(op)) {
    desc.joinedInner =
        around(typeOf(op.getResult()).getShape(), int64_t(op.getJoinDim()))
            .second;
    ArrayRef<int64_t> sections = op.getJoinSections();
    if (areTensors(sections))
      sections = sections.take_front();
    llvm::copy(sections, desc.joinedSections);
    desc.joinedSectionCount = int32_t(sections.size());
  }
  desc.call = int32_t(op.getCall());
  desc.axis = int32_t(parseSpelling<MeshAxis>(op.getAxis()).value());
  desc.parts = int32_t(op.getParts());
  desc.dtype = dtypeOf(op.getOperand());
  desc.behind = int32_t(op.getBehind());
  desc.zigzag = op.getZigzag();
  return desc;
}

SmallVector<CallArgument> AxisCollectiveOp::getCallArguments() {
  return callArguments(descriptorOf(describe(*this), "axis_collective"),
                       getOperand(), getResult(), getWorkspace());
}

int64_t AxisCollectiveOp::getWorkspaceBytes(const LibraryModel &libraries) {
  return libraries.axisCollective(describe(*this));
}

/// Parts that do not lie in one piece are copied through the workspace.
Traffic AxisCollectiveOp::getTraffic() {
  Traffic traffic = operandTraffic(*this);
  if (Value workspace = getWorkspace()) {
    traffic.read += bytesOf(workspace);
    traffic.written += bytesOf(workspace);
  }
  return traffic;
}

SmallVector<std::pair<Value, Value>> AxisCollectiveOp::getInPlacePairs() {
  if (!isSum(*this))
    return {};
  return {{getOperand(), getResult()}};
}

namespace {

/// Of a sum, of the ops that split, and of an all-to-all.
template <typename Op, ShxAxisCall kCall>
struct AxisCall : LibraryCallModel<AxisCall<Op, kCall>, Op> {
  bool canWrite(Operation *, unsigned, const Layout &layout) const {
    return layout.isContiguous();
  }

  void emit(Op op, CallEmitter &emitter) const {
    int64_t dim = 0, joinDim = 0, behind = 0;
    bool zigzag = false;
    ArrayRef<int64_t> sections, joinSections;
    if constexpr (std::is_same_v<Op, nn::PartSliceOp> ||
                  std::is_same_v<Op, nn::PartPadOp>) {
      behind = op.getBehind();
      zigzag = op.getZigzag();
    }
    if constexpr (kCall == SHX_AXIS_SHIFT) {
      behind = op.getBehind();
    } else if constexpr (kCall == SHX_AXIS_ALL_TO_ALL) {
      dim = op.getSplitDim();
      sections = op.getSplitSections();
      joinDim = op.getJoinDim();
      joinSections = op.getJoinSections();
    } else if constexpr (kCall != SHX_AXIS_ALL_REDUCE) {
      dim = op.getDim();
      sections = op.getSections();
    }
    Value operand = emitter.contiguousBuffer(op.getOperand());
    int64_t call = kCall;
    if constexpr (kCall == SHX_AXIS_PART_ROLL)
      call = op.getInverse() ? SHX_AXIS_PART_UNROLL : SHX_AXIS_PART_ROLL;
    emitter.create<AxisCollectiveOp>(
        operand, emitter.resultBuffer(op.getResult()), Value(), call,
        op.getAxis(), op.getParts(), dim, sections, joinDim, joinSections,
        behind, zigzag);
  }
};

} // namespace

void AxisCollectiveOp::attachLibraryCalls(MLIRContext &context) {
  using namespace nn;
  AllReduceOp::attachInterface<AxisCall<AllReduceOp, SHX_AXIS_ALL_REDUCE>>(
      context);
  AllGatherOp::attachInterface<AxisCall<AllGatherOp, SHX_AXIS_ALL_GATHER>>(
      context);
  AllSliceOp::attachInterface<AxisCall<AllSliceOp, SHX_AXIS_ALL_SLICE>>(
      context);
  ReduceScatterOp::attachInterface<
      AxisCall<ReduceScatterOp, SHX_AXIS_REDUCE_SCATTER>>(context);
  PartSliceOp::attachInterface<AxisCall<PartSliceOp, SHX_AXIS_ALL_SLICE>>(
      context);
  PartPadOp::attachInterface<AxisCall<PartPadOp, SHX_AXIS_PART_PAD>>(context);
  PartRollOp::attachInterface<AxisCall<PartRollOp, SHX_AXIS_PART_ROLL>>(
      context);
  PartShiftOp::attachInterface<AxisCall<PartShiftOp, SHX_AXIS_SHIFT>>(context);
  AllToAllOp::attachInterface<AxisCall<AllToAllOp, SHX_AXIS_ALL_TO_ALL>>(
      context);
}
