// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where in the model and in the step an op stands: module, unit, phase.

#include "mlir/IR/DialectImplementation.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

static constexpr llvm::StringLiteral kPhases[] = {"forward", "recompute",
                                                  "backward"};

StringRef nn::stringifyPhase(Phase phase) { return kPhases[int(phase)]; }

std::optional<Phase> nn::symbolizePhase(StringRef text) {
  const auto *it = llvm::find(kPhases, text);
  if (it == std::end(kPhases))
    return std::nullopt;
  return Phase(it - std::begin(kPhases));
}

//===----------------------------------------------------------------------===//
// Text: <"module", @unit, phase>, each if it is there
//===----------------------------------------------------------------------===//

Attribute PlaceAttr::parse(AsmParser &parser, Type) {
  StringAttr scope;
  FlatSymbolRefAttr unit;
  std::optional<Phase> phase;
  auto parsePart = [&]() -> ParseResult {
    llvm::SMLoc loc = parser.getCurrentLocation();
    Attribute part;
    StringRef keyword;
    if (succeeded(parser.parseOptionalKeyword(&keyword))) {
      std::optional<Phase> parsed = symbolizePhase(keyword);
      if (!parsed || phase)
        return parser.emitError(loc, "expected one phase: forward, recompute "
                                     "or backward");
      phase = parsed;
      return success();
    }
    if (parser.parseAttribute(part))
      return failure();
    if (auto text = dyn_cast<StringAttr>(part); text && !scope)
      scope = text;
    else if (auto symbol = dyn_cast<FlatSymbolRefAttr>(part); symbol && !unit)
      unit = symbol;
    else
      return parser.emitError(loc, "expected one module as a string and one "
                                   "unit as a symbol");
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parsePart))
    return {};
  return get(parser.getContext(), scope, unit, phase.value_or(Phase::forward));
}

void PlaceAttr::print(AsmPrinter &printer) const {
  llvm::ListSeparator comma;
  printer << '<';
  if (getScope())
    printer << StringRef(comma) << getScope();
  if (getUnit())
    printer << StringRef(comma) << getUnit();
  if (getPhase() != Phase::forward)
    printer << StringRef(comma) << stringifyPhase(getPhase());
  printer << '>';
}

//===----------------------------------------------------------------------===//
// Reading and changing it
//===----------------------------------------------------------------------===//

PlaceAttr nn::placeOf(Operation *op) {
  auto placed = dyn_cast<PlacedOpInterface>(op);
  return placed ? placed.getPlaceAttr() : PlaceAttr();
}

/// Of forward without a module or unit there is no place.
static void setPlace(Operation *op, StringAttr scope, FlatSymbolRefAttr unit,
                     Phase phase) {
  auto placed = dyn_cast<PlacedOpInterface>(op);
  if (!placed)
    return;
  bool any = scope || unit || phase != Phase::forward;
  placed.setPlaceAttr(any ? PlaceAttr::get(op->getContext(), scope, unit, phase)
                          : PlaceAttr());
}

StringRef nn::scopeOf(Operation *op) {
  PlaceAttr place = placeOf(op);
  return place && place.getScope() ? place.getScope().getValue() : StringRef();
}

FlatSymbolRefAttr nn::unitOf(Operation *op) {
  PlaceAttr place = placeOf(op);
  return place ? place.getUnit() : FlatSymbolRefAttr();
}

void nn::setUnit(Operation *op, FlatSymbolRefAttr unit) {
  setPlace(op, /*scope=*/nullptr, unit, phaseOf(op));
}

bool nn::readsBackward(Operation *op) {
  return llvm::any_of(op->getOperands(), [](Value operand) {
    Operation *producer = operand.getDefiningOp();
    PlaceAttr place = producer ? placeOf(producer) : PlaceAttr();
    return place && place.getPhase() != Phase::forward;
  });
}

Phase nn::phaseOf(Operation *op) {
  if (!isa<PlacedOpInterface>(op))
    return readsBackward(op) ? Phase::backward : Phase::forward;
  PlaceAttr place = placeOf(op);
  return place ? place.getPhase() : Phase::forward;
}

void nn::setPhase(Operation *op, Phase phase) {
  PlaceAttr place = placeOf(op);
  setPlace(op, place ? place.getScope() : nullptr,
           place ? place.getUnit() : nullptr, phase);
}

void nn::inheritPlace(Operation *op, PlaceAttr source) {
  Phase phase = readsBackward(op) ? Phase::backward : Phase::forward;
  if (source && source.getPhase() == Phase::recompute)
    phase = Phase::recompute;
  setPlace(op, source ? source.getScope() : nullptr,
           source ? source.getUnit() : nullptr, phase);
}

void nn::inheritPlace(Operation *op, Operation *source) {
  inheritPlace(op, placeOf(source));
}

void nn::markBackward(Block &block) {
  for (Operation &op : block)
    if (phaseOf(&op) != Phase::recompute)
      setPhase(&op, isa<LossScaleOp>(op) || readsBackward(&op)
                        ? Phase::backward
                        : Phase::forward);
}

DictionaryAttr nn::attributesWithoutPlace(Operation *op) {
  NamedAttrList attributes(op->getAttrDictionary());
  if (isa<PlacedOpInterface>(op))
    attributes.erase("place");
  return attributes.getDictionary(op->getContext());
}

void PlaceListener::notifyOperationInserted(Operation *op,
                                            OpBuilder::InsertPoint) {
  if (!isa<ConstantOp, GetOp, ParameterOp>(op) && !placeOf(op))
    inheritPlace(op, place);
}

void PlaceListener::notifyPatternBegin(const Pattern &, Operation *op) {
  place = placeOf(op);
}
