// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The attributes of the dialect on what is not its own: modules, arguments and
// results of functions. One that is not known here is an error, since whoever
// wrote it meant something by it.

#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Dialect/NN/IR/Adapters.h"
#include "shardonnx/Dialect/NN/IR/Ids.h"
#include "shardonnx/Dialect/NN/IR/Inputs.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Dialect/NN/IR/PackedParameters.h"
#include "shardonnx/Dialect/NN/IR/ParameterReport.h"
#include "shardonnx/Dialect/NN/IR/RaiseReport.h"
#include "shardonnx/Dialect/NN/IR/Ties.h"
#include "shardonnx/Dialect/NN/IR/UnitPolicy.h"
#include "shardonnx/runtime/Lora.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

namespace {
/// An attribute and what its value may be.
struct Known {
  StringRef name;
  bool (*holds)(Attribute value);
};
} // namespace

template <typename... T> static bool isOne(Attribute value) {
  return isa<T...>(value);
}

static bool isInputKind(Attribute value) {
  auto text = dyn_cast<StringAttr>(value);
  return text && parseSpelling<InputKind>(text.getValue());
}

static bool isIdUses(Attribute value) {
  auto uses = dyn_cast<ArrayAttr>(value);
  return uses && llvm::all_of(uses, [](Attribute use) {
           return toIdUse(use).has_value();
         });
}

static const Known kOfModules[] = {{kModelAttr, isOne<StringAttr>},
                                   {kRaisedAttr, isOne<ArrayAttr>},
                                   {kUntrainedAttr, isOne<ArrayAttr>},
                                   {kLoraAttr, isOne<DictionaryAttr>},
                                   {kLossKindAttr, isOne<StringAttr>},
                                   {kMeshAttr, isOne<DictionaryAttr>},
                                   {kReduceDtypeAttr, isOne<TypeAttr>},
                                   {kStrictAttr, isOne<UnitAttr>},
                                   {kDocumentSeparatorAttr, isOne<IntegerAttr>},
                                   {kMaxDocumentsAttr, isOne<IntegerAttr>},
                                   {kUnitRulesAttr, isOne<ArrayAttr>},
                                   {kUnitPoliciesAttr, isOne<DictionaryAttr>}};

static bool isDraw(Attribute value) {
  auto text = dyn_cast<StringAttr>(value);
  return text && parseSpelling<DrawKind>(text.getValue());
}

static bool isPacking(Attribute value) {
  auto text = dyn_cast<StringAttr>(value);
  return text && parseSpelling<Packing>(text.getValue());
}

static const Known kOfParameters[] = {{kDrawAttr, isDraw},
                                      {kBaseAttr, isOne<UnitAttr>},
                                      {kPackingAttr, isPacking},
                                      {kSplitAttr, isOne<DictionaryAttr>},
                                      {kInCodesAttr, isOne<UnitAttr>},
                                      {kF8StepsAttr, isOne<DenseI64ArrayAttr>},
                                      {kPackedTransposedAttr, isOne<UnitAttr>}};

static const Known kOfMaxima[] = {{kFirstAttr, isOne<UnitAttr>}};

static const Known kOfArguments[] = {{kNameAttr, isOne<StringAttr>},
                                     {kKindAttr, isInputKind},
                                     {kIdsAttr, isIdUses},
                                     {kWeightAttr, isOne<StringAttr>},
                                     {kSourceAttr, isOne<ExternalAttr>}};

static const Known kOfResults[] = {{kNameAttr, isOne<StringAttr>},
                                   {kGradientOfAttr, isOne<StringAttr>},
                                   {kValueAttr, isOne<ElementsAttr>}};

static LogicalResult verifyKnown(Operation *op, NamedAttribute attribute,
                                 ArrayRef<Known> known, StringRef where) {
  for (const Known &one : known) {
    if (one.name != attribute.getName())
      continue;
    if (one.holds(attribute.getValue()))
      return success();
    return op->emitError() << attribute.getName() << " cannot be "
                           << attribute.getValue();
  }
  return op->emitError() << "the nn dialect has no attribute "
                         << attribute.getName() << " of " << where;
}

LogicalResult NNDialect::verifyOperationAttribute(Operation *op,
                                                  NamedAttribute attribute) {
  ArrayRef<Known> known;
  if (isa<ModuleOp>(op))
    known = kOfModules;
  else if (isa<ParameterOp>(op))
    known = kOfParameters;
  else if (isa<ReduceMaxOp>(op))
    known = kOfMaxima;
  return verifyKnown(op, attribute, known, op->getName().getStringRef());
}

LogicalResult NNDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                  unsigned,
                                                  NamedAttribute attribute) {
  return verifyKnown(op, attribute, kOfArguments, "arguments");
}

LogicalResult NNDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                     unsigned,
                                                     NamedAttribute attribute) {
  return verifyKnown(op, attribute, kOfResults, "results");
}

bool nn::isStrict(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  return module && module->hasAttr(kStrictAttr);
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

StringRef nn::inputName(FunctionOpInterface function, unsigned index) {
  auto name = function.getArgAttrOfType<StringAttr>(index, kNameAttr);
  return name ? name.getValue() : StringRef();
}

std::optional<InputKind> nn::inputKind(FunctionOpInterface function,
                                       unsigned index) {
  auto kind = function.getArgAttrOfType<StringAttr>(index, kKindAttr);
  return kind ? parseSpelling<InputKind>(kind.getValue()) : std::nullopt;
}

std::optional<InputKind> nn::kindByName(StringRef name, Type type) {
  // One of more axes says of each query what it sees.
  if (isPaddingMask(name) && cast<ShapedType>(type).getRank() == 2)
    return InputKind::AttentionMask;
  for (InputKind kind : {InputKind::PositionIds, InputKind::TokenTypeIds})
    if (isNamed(name, kind))
      return kind;
  return std::nullopt;
}

void nn::setInputKind(FunctionOpInterface function, unsigned index,
                      InputKind kind) {
  function.setArgAttr(index, kKindAttr,
                      StringAttr::get(function.getContext(), spell(kind)));
}

DictionaryAttr nn::inputAttributes(MLIRContext *context, InputKind kind) {
  Builder builder(context);
  StringAttr name = builder.getStringAttr(spell(kind));
  return builder.getDictionaryAttr({builder.getNamedAttr(kNameAttr, name),
                                    builder.getNamedAttr(kKindAttr, name)});
}
