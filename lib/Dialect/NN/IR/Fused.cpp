// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn.fused: its text and what its body may hold.
//
//   %0 = nn.fused rows [4, 384] (%x = %a : tensor<4x384xf32>)
//       -> tensor<4x384xf32> { … nn.yield %y : tensor<4x384xf32> }

#include "Evaluate.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

static ParseResult parseInputs(OpAsmParser &parser,
                               SmallVectorImpl<OpAsmParser::Argument> &args,
                               OperationState &result) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  llvm::SMLoc loc = parser.getCurrentLocation();
  auto parseInput = [&]() -> ParseResult {
    OpAsmParser::Argument &arg = args.emplace_back();
    return failure(parser.parseArgument(arg) || parser.parseEqual() ||
                   parser.parseOperand(operands.emplace_back()) ||
                   parser.parseColonType(arg.type));
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseInput))
    return failure();
  SmallVector<Type> types;
  for (const OpAsmParser::Argument &arg : args)
    types.push_back(arg.type);
  return parser.resolveOperands(operands, types, loc, result.operands);
}

ParseResult FusedOp::parse(OpAsmParser &parser, OperationState &result) {
  StringRef keyword;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  std::optional<FusedKind> kind = symbolizeFusedKind(keyword);
  if (!kind)
    return parser.emitError(loc, "expected rows or columns");
  Properties &properties = result.getOrAddProperties<Properties>();
  properties.kind = FusedKindAttr::get(parser.getContext(), *kind);

  SmallVector<int64_t> domain;
  auto parseSize = [&] { return parser.parseInteger(domain.emplace_back()); };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseSize))
    return failure();
  properties.domain = parser.getBuilder().getDenseI64ArrayAttr(domain);

  SmallVector<OpAsmParser::Argument> args;
  if (parseInputs(parser, args, result) ||
      parser.parseArrowTypeList(result.types) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  if (Attribute place = result.attributes.erase("place"))
    if (!(properties.place = dyn_cast<PlaceAttr>(place)))
      return parser.emitError(loc, "place must be a #nn.place");
  return parser.parseRegion(*result.addRegion(), args);
}

void FusedOp::print(OpAsmPrinter &printer) {
  printer << ' ' << stringifyFusedKind(getKind()) << " [";
  llvm::interleaveComma(getDomain(), printer);
  printer << "] (";
  auto pairs = llvm::zip(getBody().getArguments(), getInputs());
  llvm::interleaveComma(pairs, printer, [&](auto pair) {
    auto [argument, input] = pair;
    printer.printRegionArgument(argument, {}, /*omitType=*/true);
    printer << " = " << input << " : " << input.getType();
  });
  printer << ')';
  printer.printArrowTypeList(getOutputs().getTypes());
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                           {"kind", "domain"});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

/// Axes of a reduction that a kernel of this kind can do: all but the last, or
/// the last one, kept (rows only).
static bool reduces(FusedKind kind, int64_t rank, ArrayRef<int64_t> axes,
                    bool keepdims) {
  if (kind == FusedKind::rows && keepdims)
    return axes == ArrayRef<int64_t>(rank - 1);
  return llvm::equal(axes, llvm::seq<int64_t>(0, rank - 1));
}

static LogicalResult verifyBodyOp(FusedOp fused, Operation &op) {
  if (placeOf(&op))
    return op.emitOpError("has a place, but the group has it for all its ops");
  if (isa<ElementwiseOpInterface>(op) ||
      isa<ConstantOp, IotaOp, BroadcastOp, YieldOp>(op))
    return success();
  bool columns = fused.getKind() == FusedKind::columns;
  auto isYielded = [](Operation *user) { return isa<YieldOp>(user); };
  if (isTensorStep(&op) && !columns) {
    if (!llvm::all_of(op.getUsers(), isYielded))
      return op.emitOpError("is known once the kernel has ended");
    return success();
  }
  if (!isa<ReduceSumOp, ReduceMeanOp, ReduceMaxOp>(op))
    return op.emitOpError("cannot be part of a fused group");
  if (columns && !isa<ReduceSumOp>(op))
    return op.emitOpError("cannot be part of a column reduction");
  auto axes = op.getAttrOfType<DenseI64ArrayAttr>("axes");
  if (!reduces(fused.getKind(), fused.getDomain().size(), axes,
               op.hasAttr("keepdims")))
    return op.emitOpError("must reduce ")
           << (columns ? "all axes but the last"
                       : "the last axis of the domain, and keep it");
  if (columns || !sumsRows(&op))
    return success();
  if (!isa<ReduceSumOp>(op) || !llvm::all_of(op.getUsers(), isYielded))
    return op.emitOpError("over rows must be a sum that is only yielded");
  return success();
}

LogicalResult FusedOp::verify() {
  Block &block = getBody().front();
  if (!llvm::equal(block.getArgumentTypes(), getInputs().getTypes()))
    return emitOpError("body's arguments differ from the inputs");
  auto yield = cast<YieldOp>(block.getTerminator());
  if (!llvm::equal(yield.getResults().getTypes(), getOutputs().getTypes()))
    return yield.emitOpError("yields other types than the group's results");
  for (Operation &op : block) {
    if (failed(verifyBodyOp(*this, op)))
      return failure();
    bool columns = getKind() == FusedKind::columns;
    if (columns && isa<ReduceSumOp>(op))
      continue;
    for (Value result : op.getResults())
      if (!broadcastsTo(shapeOf(result), getDomain()))
        return op.emitOpError("gives ")
               << result.getType() << ", which does not broadcast to ["
               << getDomain() << "]";
  }
  if (getKind() == FusedKind::columns)
    for (Value result : yield.getResults())
      if (!result.getDefiningOp<ReduceSumOp>())
        return yield.emitOpError("of a column reduction yields reduce_sums");
  return success();
}

// A group without results needs nothing written.
void YieldOp::build(OpBuilder &, OperationState &) {}

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

NN_EVALUATE(FusedOp) {
  Block &body = getBody().front();
  for (auto [argument, input] :
       llvm::zip_equal(body.getArguments(), getInputs()))
    (void)interpreter.set(argument, HostTensor(interpreter.get(input)));
  if (failed(interpreter.runBlock(body)))
    return failure();
  for (auto [result, value] :
       llvm::zip_equal(getOutputs(), body.getTerminator()->getOperands()))
    (void)interpreter.set(result, HostTensor(interpreter.get(value)));
  return success();
}
