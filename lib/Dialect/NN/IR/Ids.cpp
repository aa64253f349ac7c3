// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Ids.h.

#include "shardonnx/Dialect/NN/IR/Ids.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

/// Whether a cast keeps every id: to an integer that is no truth.
static bool keepsIds(CastOp cast) {
  auto isNumber = [](Value value) {
    Type type = elementType(value);
    return isa<IntegerType>(type) && !type.isInteger(1);
  };
  return isNumber(cast.getOperand()) && isNumber(cast.getResult());
}

/// Cuts what `use` takes of an argument to a part of it. What is cut along the
/// first axis are samples, which may take turns.
static void cut(IdUse &use, SliceOp slice) {
  ArrayRef<int64_t> offsets = slice.getOffsets(), sizes = slice.getSizes();
  ArrayRef<int64_t> from = shapeOf(slice.getOperand());
  if (offsets.empty() || offsets[0] != 0 || sizes[0] != from[0]) {
    use.begin.clear();
    use.end.clear();
    return;
  }
  if (!use.partial) {
    use.begin.assign(from.size() - 1, 0);
    use.end.assign(from.begin() + 1, from.end());
  }
  for (size_t axis = 0; axis < use.begin.size(); ++axis) {
    use.begin[axis] += offsets[axis + 1];
    use.end[axis] = use.begin[axis] + sizes[axis + 1];
  }
}

std::optional<IdSource> nn::sourceOfIds(Value ids) {
  SmallVector<Operation *> moves;
  while (Operation *op = ids.getDefiningOp()) {
    auto cast = dyn_cast<CastOp>(op);
    if (cast ? !keepsIds(cast)
             : !isa<ReshapeOp, SliceOp, TransposeOp, PadOp, ConcatOp,
                    BroadcastOp, PartSliceOp>(op))
      return std::nullopt;
    moves.push_back(op);
    ids = op->getOperand(0);
  }
  IdSource source{cast<BlockArgument>(ids), {}};
  IdUse &use = source.use;
  // Which elements a slice takes is told in the argument's axes while nothing
  // but slices and casts has moved them.
  bool inPlace = true;
  for (Operation *op : llvm::reverse(moves)) {
    auto slice = dyn_cast<SliceOp>(op);
    if (slice || isa<PartSliceOp>(op)) {
      if (slice && inPlace) {
        cut(use, slice);
      } else {
        use.begin.clear();
        use.end.clear();
      }
      use.shifted |= slice && slice.getOffsets().back() > 0;
      use.partial = true;
    }
    inPlace &= slice || isa<CastOp>(op);
  }
  return source;
}

//===----------------------------------------------------------------------===//
// As attributes
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral kLimit = "limit", kIgnored = "ignored",
                                     kShifted = "shifted", kPartial = "partial",
                                     kBegin = "begin", kEnd = "end";

Attribute nn::toAttribute(MLIRContext *context, const IdUse &use) {
  Builder b(context);
  NamedAttrList entries;
  entries.set(kLimit, b.getI64IntegerAttr(use.limit));
  if (use.ignored)
    entries.set(kIgnored, b.getI64IntegerAttr(*use.ignored));
  if (use.shifted)
    entries.set(kShifted, b.getUnitAttr());
  if (use.partial)
    entries.set(kPartial, b.getUnitAttr());
  if (!use.begin.empty()) {
    entries.set(kBegin, b.getDenseI64ArrayAttr(use.begin));
    entries.set(kEnd, b.getDenseI64ArrayAttr(use.end));
  }
  return entries.getDictionary(context);
}

std::optional<IdUse> nn::toIdUse(Attribute attribute) {
  auto entries = dyn_cast<DictionaryAttr>(attribute);
  auto limit = entries ? entries.getAs<IntegerAttr>(kLimit) : IntegerAttr();
  if (!limit || limit.getInt() < 1)
    return std::nullopt;
  IdUse use;
  use.limit = limit.getInt();
  if (auto ignored = entries.getAs<IntegerAttr>(kIgnored))
    use.ignored = ignored.getInt();
  use.shifted = entries.contains(kShifted);
  use.partial = entries.contains(kPartial);
  auto begin = entries.getAs<DenseI64ArrayAttr>(kBegin),
       end = entries.getAs<DenseI64ArrayAttr>(kEnd);
  if (!begin != !end || (begin && begin.size() != end.size()))
    return std::nullopt;
  if (begin) {
    use.begin.assign(begin.asArrayRef().begin(), begin.asArrayRef().end());
    use.end.assign(end.asArrayRef().begin(), end.asArrayRef().end());
  }
  return use;
}

SmallVector<IdUse> nn::idUsesOf(FunctionOpInterface function, unsigned index) {
  SmallVector<IdUse> uses;
  if (auto all = function.getArgAttrOfType<ArrayAttr>(index, kIdsAttr))
    for (Attribute one : all)
      uses.push_back(*toIdUse(one));
  return uses;
}
