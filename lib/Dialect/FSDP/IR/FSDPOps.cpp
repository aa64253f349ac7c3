// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Syntax and verifiers of the fsdp ops. What spans several ops (pairs, order)
// is the business of the verify-fsdp pass.

#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Dialect/NN/IR/PackedParameters.h"
#include "shardonnx/runtime/Layout.h"

#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

//===----------------------------------------------------------------------===//
// fsdp.unit
//===----------------------------------------------------------------------===//

// One interval a line: `@parameter at OFFSET size SIZE`.
static ParseResult parseIntervals(OpAsmParser &parser, ArrayAttr &intervals) {
  SmallVector<Attribute> elements;
  auto parseOne = [&]() -> ParseResult {
    StringAttr name;
    int64_t offset = 0, size = 0;
    if (parser.parseSymbolName(name) || parser.parseKeyword("at") ||
        parser.parseInteger(offset) || parser.parseKeyword("size") ||
        parser.parseInteger(size))
      return failure();
    elements.push_back(IntervalAttr::get(
        parser.getContext(), FlatSymbolRefAttr::get(name), offset, size));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  intervals = ArrayAttr::get(parser.getContext(), elements);
  return success();
}

static void printIntervals(OpAsmPrinter &printer, Operation *,
                           ArrayAttr intervals) {
  printer << "[";
  printer.increaseIndent();
  llvm::interleave(
      intervals.getAsRange<IntervalAttr>(),
      [&](IntervalAttr interval) {
        printer.printNewline();
        printer.printSymbolName(interval.getParameter().getValue());
        printer << " at " << interval.getOffset() << " size "
                << interval.getSize();
      },
      [&] { printer << ","; });
  printer.decreaseIndent();
  if (!intervals.empty())
    printer.printNewline();
  printer << "]";
}

static LogicalResult verifySection(UnitOp unit, StringRef section,
                                   ArrayAttr intervals, int64_t length) {
  if (length < 0 || length % kParameterAlignment != 0)
    return unit.emitOpError()
           << section << " length " << length << " is not a multiple of "
           << kParameterAlignment;
  int64_t end = 0;
  for (auto interval : intervals.getAsRange<IntervalAttr>()) {
    StringRef name = interval.getParameter().getValue();
    if (interval.getSize() <= 0)
      return unit.emitOpError() << "@" << name << " is empty";
    // One that is joined with the one before it follows without a gap.
    bool follows = interval.getOffset() == end && end % kSliceAlignment == 0;
    if (!follows && interval.getOffset() % kParameterAlignment != 0)
      return unit.emitOpError()
             << "@" << name << " at " << interval.getOffset()
             << " is not aligned to " << kParameterAlignment << " elements";
    if (interval.getOffset() < end)
      return unit.emitOpError()
             << "@" << name << " at " << interval.getOffset()
             << " overlaps the parameter before it, which ends at " << end;
    end = interval.getOffset() + interval.getSize();
    if (end > length)
      return unit.emitOpError()
             << "@" << name << " ends at " << end << ", beyond the " << section
             << " length " << length;
  }
  return success();
}

LogicalResult UnitOp::verify() {
  auto isWide = [](Type type) {
    return isa<Float32Type, BFloat16Type, Float16Type>(type);
  };
  SmallVector<Type, 2> wide = {getReduceDtype()};
  if (!isa<Float8E4M3FNType>(getParamDtype()))
    wide.push_back(getParamDtype());
  for (Type type : wide)
    if (!isWide(type))
      return emitOpError() << "dtype " << type << " is not f32, bf16 or f16";
  if (failed(verifySection(*this, "trainable", getIntervals(), getLength())) ||
      failed(verifySection(*this, "frozen", getFrozenIntervals(),
                           getFrozenLength())))
    return failure();
  if (int64_t(getMatrixLength()) > int64_t(getLength()) ||
      getMatrixLength() % kParameterAlignment != 0)
    return emitOpError() << "matrices of " << int64_t(getMatrixLength())
                         << " elements do not end where a parameter of its "
                         << int64_t(getLength()) << " begins";
  if (getReshardGroup() != 0 &&
      (int64_t(getReshardGroup()) < 2 || !getReshardAfterForward()))
    return emitOpError() << "reshard_group " << int64_t(getReshardGroup())
                         << " wants reshard_after_forward and two ranks or "
                            "more";
  if (getKept() &&
      (getReshardAfterForward() || getLayout() == Layout::replicated))
    return emitOpError("is kept, so it is sharded and does not reshard");
  llvm::SmallDenseSet<Attribute> seen;
  for (ArrayAttr section : {getIntervals(), getFrozenIntervals()})
    for (auto interval : section.getAsRange<IntervalAttr>())
      if (!seen.insert(interval.getParameter()).second)
        return emitOpError() << "holds " << interval.getParameter() << " twice";
  return success();
}

LogicalResult UnitOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (ArrayAttr section : {getIntervals(), getFrozenIntervals()})
    for (auto interval : section.getAsRange<IntervalAttr>()) {
      auto parameter = symbols.lookupNearestSymbolFrom<nn::ParameterOp>(
          *this, interval.getParameter());
      if (!parameter)
        return emitOpError()
               << interval.getParameter() << " is not an nn.parameter";
      int64_t size = nn::elementsIn(parameter, getParamDtype());
      if (size != interval.getSize())
        return emitOpError()
               << interval.getParameter() << " has " << size
               << " elements, its interval " << interval.getSize();
      if (section == getIntervals() && !parameter.getTrainable())
        return emitOpError() << interval.getParameter()
                             << " is frozen, but in the trainable section";
    }
  return success();
}

//===----------------------------------------------------------------------===//
// Users of a unit
//===----------------------------------------------------------------------===//

static UnitOp lookupUnit(Operation *op, FlatSymbolRefAttr name,
                         SymbolTableCollection &symbols) {
  auto unit = symbols.lookupNearestSymbolFrom<UnitOp>(op, name);
  if (!unit)
    op->emitOpError() << name << " is not an fsdp.unit";
  return unit;
}

LogicalResult AllGatherOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return success(lookupUnit(*this, getUnitAttr(), symbols) != nullptr);
}
LogicalResult
AllGatherStartOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return success(lookupUnit(*this, getUnitAttr(), symbols) != nullptr);
}
LogicalResult
AllGatherWaitOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return success(lookupUnit(*this, getUnitAttr(), symbols) != nullptr);
}
LogicalResult ReduceWaitOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return success(lookupUnit(*this, getUnitAttr(), symbols) != nullptr);
}

// Nothing trainable, nothing to reduce or update.
static LogicalResult verifyTrainableUnit(Operation *op, FlatSymbolRefAttr name,
                                         SymbolTableCollection &symbols) {
  UnitOp unit = lookupUnit(op, name, symbols);
  if (!unit)
    return failure();
  if (unit.getIntervals().empty())
    return op->emitOpError() << "unit " << name << " has nothing to train";
  return success();
}

LogicalResult GradAcquireOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyTrainableUnit(*this, getUnitAttr(), symbols);
}
LogicalResult OptimizerOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyTrainableUnit(*this, getUnitAttr(), symbols);
}
LogicalResult MuonStartOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyTrainableUnit(*this, getUnitAttr(), symbols);
}
LogicalResult MuonFinishOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyTrainableUnit(*this, getUnitAttr(), symbols);
}

SmallVector<Value> fsdp::summandsOf(Operation *op) {
  auto fused = dyn_cast<nn::FusedOp>(op);
  if (!fused || fused.getInputs().size() < 2 || fused.getOutputs().size() != 1)
    return {};
  Block &body = fused.getBody().front();
  bool adds = llvm::all_of(body, [&](Operation &inner) {
    return isa<nn::AddOp>(inner) || &inner == body.getTerminator();
  });
  Type type = fused.getOutputs()[0].getType();
  adds &= llvm::all_of(fused.getInputs(),
                       [&](Value input) { return input.getType() == type; });
  adds &= llvm::all_of(body.getArguments(),
                       [](BlockArgument input) { return input.hasOneUse(); });
  return adds ? llvm::to_vector(fused.getInputs()) : SmallVector<Value>();
}

FlatSymbolRefAttr fsdp::getGatheredUnit(Value gathered) {
  Operation *def = gathered.getDefiningOp();
  if (auto gather = dyn_cast_or_null<AllGatherOp>(def))
    return gather.getUnitAttr();
  if (auto wait = dyn_cast_or_null<AllGatherWaitOp>(def))
    return wait.getUnitAttr();
  return {};
}

LogicalResult ViewOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FlatSymbolRefAttr name = getGatheredUnit(getGathered());
  if (!name)
    return emitOpError() << "operand is not the result of a gather";
  UnitOp unit = lookupUnit(*this, name, symbols);
  if (!unit)
    return failure();
  auto holds = [&](ArrayAttr section) {
    return llvm::any_of(section.getAsRange<IntervalAttr>(), [&](auto interval) {
      return interval.getParameter() == getParameterAttr();
    });
  };
  if (!holds(unit.getIntervals()) && !holds(unit.getFrozenIntervals()))
    return emitOpError() << getParameterAttr() << " is not in unit " << name;
  auto parameter = symbols.lookupNearestSymbolFrom<nn::ParameterOp>(
      *this, getParameterAttr());
  RankedTensorType expected = nn::typeIn(parameter, unit.getParamDtype());
  if (getType() != expected)
    return emitOpError() << "result is " << getType() << ", but "
                         << getParameterAttr() << " in its unit is "
                         << expected;
  return success();
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

static LogicalResult verifyReduction(Operation *op, FlatSymbolRefAttr unitName,
                                     ArrayAttr parameters, ValueRange gradients,
                                     SymbolTableCollection &symbols) {
  UnitOp unit = lookupUnit(op, unitName, symbols);
  if (!unit)
    return failure();
  if (parameters.size() != gradients.size())
    return op->emitOpError()
           << "names " << parameters.size() << " parameters for "
           << gradients.size() << " gradients";
  ArrayAttr intervals = unit.getIntervals();
  if (parameters.size() != intervals.size())
    return op->emitOpError()
           << "reduces " << parameters.size() << " of the " << intervals.size()
           << " trainable parameters of " << unitName;
  for (auto [name, interval, gradient] : llvm::zip_equal(
           parameters, intervals.getAsRange<IntervalAttr>(), gradients)) {
    if (name != interval.getParameter())
      return op->emitOpError() << "has " << name << " where unit " << unitName
                               << " has " << interval.getParameter();
    auto parameter = symbols.lookupNearestSymbolFrom<nn::ParameterOp>(
        op, interval.getParameter());
    if (!parameter)
      return op->emitOpError() << name << " is not an nn.parameter";
    auto expected =
        RankedTensorType::get(cast<ShapedType>(parameter.getType()).getShape(),
                              unit.getReduceDtype());
    if (gradient.getType() != expected)
      return op->emitOpError() << "gradient of " << name << " is "
                               << gradient.getType() << ", not " << expected;
  }
  return success();
}

// The synchronous forms also name the kind of the reduction.
static LogicalResult verifyLayout(Operation *op, FlatSymbolRefAttr unitName,
                                  Layout layout,
                                  SymbolTableCollection &symbols) {
  UnitOp unit = lookupUnit(op, unitName, symbols);
  if (unit && unit.getLayout() != layout)
    return op->emitOpError()
           << "does not suit the " << stringifyLayout(unit.getLayout())
           << " unit " << unitName;
  return success(unit != nullptr);
}

LogicalResult
ReduceScatterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(verifyLayout(*this, getUnitAttr(), Layout::sharded, symbols)))
    return failure();
  return verifyReduction(*this, getUnitAttr(), getParameters(), getGradients(),
                         symbols);
}
LogicalResult AllReduceOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(verifyLayout(*this, getUnitAttr(), Layout::replicated, symbols)))
    return failure();
  return verifyReduction(*this, getUnitAttr(), getParameters(), getGradients(),
                         symbols);
}
LogicalResult ReduceStartOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyReduction(*this, getUnitAttr(), getParameters(), getGradients(),
                         symbols);
}

#define GET_OP_CLASSES
#include "shardonnx/Dialect/FSDP/IR/FSDPOps.cpp.inc"
