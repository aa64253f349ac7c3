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

bool exec::callSends(uint64_t call) {
  switch (call) {
  case SHX_AXIS_ALL_REDUCE:
  case SHX_AXIS_ALL_GATHER:
  case SHX_AXIS_REDUCE_SCATTER:
  case SHX_AXIS_ALL_TO_ALL:
  case SHX_AXIS_SHIFT:
    return true;
  default:
    return false;
  }
}

/// Of whole tensors; a sum of which each rank keeps a part is split.
template <typename Op> static bool isSum(Op op) {
  return op.getCall() == SHX_AXIS_ALL_REDUCE;
}

/// Of whole tensors, too, which go from rank to rank.
template <typename Op> static bool isWhole(Op op) {
  return isSum(op) || op.getCall() == SHX_AXIS_SHIFT;
}

/// Equal sections are as many tensors of one section each, side by side.
static bool areTensors(ArrayRef<int64_t> sections) {
  return llvm::all_equal(sections);
}

template <typename Op> static bool isExchange(Op op) {
  return op.getCall() == SHX_AXIS_ALL_TO_ALL;
}

/// A dimension's sections, which a call has or not.
static bool sectionsFit(bool wanted, int64_t dim, ArrayRef<int64_t> sections,
                        MemRefType type) {
  return wanted != sections.empty() &&
         (sections.size() <= SHX_MAX_SECTIONS || areTensors(sections)) &&
         dim < std::max<int64_t>(type.getRank(), 1);
}

template <typename Op> static LogicalResult verifyCall(Op op) {
  MemRefType from = typeOf(op.getOperand()), to = typeOf(op.getResult());
  if (!parseSpelling<MeshAxis>(op.getAxis()) || int64_t(op.getParts()) < 2)
    return op.emitOpError("needs an axis of several ranks");
  if (from.getElementType() != to.getElementType() ||
      (isWhole(op) && from.getShape() != to.getShape()))
    return op.emitOpError("needs buffers of one element type, and in a sum or "
                          "a shift of one shape");
  if (!sectionsFit(!isWhole(op), int64_t(op.getDim()), op.getSections(),
                   from) ||
      !sectionsFit(isExchange(op), int64_t(op.getJoinDim()),
                   op.getJoinSections(), to))
    return op.emitOpError(
        "needs the sections of one dimension where it is no sum or shift, and "
        "of another in an all-to-all");
  if (failed(verifyContiguous(op, "operand", op.getOperand())))
    return failure();
  return verifyContiguous(op, "result", op.getResult());
}

LogicalResult AxisCollectiveOp::verify() { return verifyCall(*this); }
LogicalResult AxisStartOp::verify() { return verifyCall(*this); }
LogicalResult AxisWaitOp::verify() { return verifyCall(*this); }

/// The elements before and behind an index of a dimension.
static std::pair<int64_t, int64_t> around(ArrayRef<int64_t> shape,
                                          int64_t dim) {
  std::pair<int64_t, int64_t> sizes = {1, 1};
  for (auto [axis, size] : llvm::enumerate(shape))
    if (int64_t(axis) != dim)
      (int64_t(axis) < dim ? sizes.first : sizes.second) *= size;
  return sizes;
}

template <typename Op> static ShxAxisCollective describe(Op op) {
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

template <typename Op> static SmallVector<CallArgument> argumentsOf(Op op) {
  return callArguments(descriptorOf(describe(op), "axis_collective"),
                       op.getOperand(), op.getResult(), op.getWorkspace());
}

SmallVector<CallArgument> AxisCollectiveOp::getCallArguments() {
  return argumentsOf(*this);
}
SmallVector<CallArgument> AxisStartOp::getCallArguments() {
  return argumentsOf(*this);
}
SmallVector<CallArgument> AxisWaitOp::getCallArguments() {
  return argumentsOf(*this);
}

int64_t AxisCollectiveOp::getWorkspaceBytes(const LibraryModel &libraries) {
  return libraries.axisCollective(describe(*this));
}
int64_t AxisStartOp::getWorkspaceBytes(const LibraryModel &libraries) {
  return libraries.axisCollective(describe(*this));
}
int64_t AxisWaitOp::getWorkspaceBytes(const LibraryModel &libraries) {
  return libraries.axisCollective(describe(*this));
}

/// Parts that do not lie in one piece are copied through the workspace.
template <typename Op> static Traffic trafficOf(Op op) {
  Traffic traffic = operandTraffic(op);
  if (Value workspace = op.getWorkspace()) {
    traffic.read += bytesOf(workspace);
    traffic.written += bytesOf(workspace);
  }
  return traffic;
}

Traffic AxisCollectiveOp::getTraffic() { return trafficOf(*this); }
/// All of it is the start's.
Traffic AxisStartOp::getTraffic() { return trafficOf(*this); }
Traffic AxisWaitOp::getTraffic() { return {}; }

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

// What exec-overlap-axes makes of an axis_collective.
void AxisStartOp::attachLibraryCalls(MLIRContext &) {}
void AxisWaitOp::attachLibraryCalls(MLIRContext &) {}

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
