// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads constants from the model's files and declares parameters.

#include "Initializers.h"

#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Support/InputFile.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace shardonnx {

/// Initializers up to this many elements may be computed with: of floats, which
/// can be parameters; of booleans and integers, which cannot (masks).
static constexpr int64_t maxFloats = int64_t(1) << 22;
static constexpr int64_t maxOthers = int64_t(1) << 25;
/// A matrix or vector larger than this that is not trained stays a parameter.
static constexpr int64_t maxInlined = 8192;

static bool isTooLarge(RankedTensorType type) {
  bool isFloat = isa<FloatType>(type.getElementType());
  return type.getNumElements() > (isFloat ? maxFloats : maxOthers);
}

std::optional<HostTensor>
Initializers::readConstant(onnx::InitializerOp initializer) {
  auto type = cast<RankedTensorType>(initializer.getType());
  if (initializer.getTrainable() || isTooLarge(type))
    return std::nullopt;
  if (auto value = initializer.getValue())
    return HostTensor::fromAttr(cast<DenseElementsAttr>(*value));
  auto model = module->getAttrOfType<StringAttr>("onnx.model");
  llvm::SmallString<256> path(
      model ? llvm::sys::path::parent_path(model.getValue()) : StringRef());
  llvm::sys::path::append(path, *initializer.getFile());
  InputBytes buffer =
      readInputSlice(path, *initializer.getLength(), *initializer.getOffset());
  if (!buffer) {
    if (!broken)
      initializer.emitError()
          << "constant '" << initializer.getSymName()
          << "' shapes the program, but its bytes cannot be read from '" << path
          << "': " << buffer.getError().message();
    broken = true;
    Scalar zero;
    zero.i = 0;
    return HostTensor::splat(type.getShape(), type.getElementType(), zero);
  }
  StringRef bytes = (*buffer)->getBuffer();
  // Exporters repeat a mask for each sample of a static batch.
  return HostTensor::fromBytes(type, ArrayRef<char>(bytes.data(), bytes.size()))
      .collapseUniformAxes();
}

bool Initializers::isParameter(onnx::InitializerOp initializer) {
  auto type = cast<RankedTensorType>(initializer.getType());
  int64_t count = type.getNumElements();
  bool isWeight = isa<FloatType>(type.getElementType()) && type.getRank() <= 2;
  return initializer.getTrainable() || isTooLarge(type) ||
         (isWeight && count > maxInlined);
}

Value Initializers::getParameter(nn::NNBuilder &b,
                                 onnx::InitializerOp initializer) {
  auto type = cast<RankedTensorType>(initializer.getType());
  Type stored = type.getElementType();
  if (!isa<FloatType>(stored) && !module->hasAttr(kEvaluateAttr) && !broken) {
    initializer.emitError()
        << "constant '" << initializer.getSymName() << "' has "
        << type.getNumElements() << " elements of " << stored
        << ", and no more than " << maxOthers
        << " can be in a program: let the graph compute it, or make it an "
           "input";
    broken = true;
  }
  SmallVector<int64_t> shape(type.getShape());
  if (initializer.getTransposed())
    std::swap(shape[0], shape[1]);
  nn::ParameterOp &parameter = parameters[initializer];
  if (!parameter) {
    OpBuilder atTop = OpBuilder::atBlockEnd(module.getBody());
    Type master = isa<FloatType>(stored) ? Type(atTop.getF32Type()) : stored;
    nn::ExternalAttr source;
    if (initializer.getFile())
      source = nn::ExternalAttr::get(
          atTop.getContext(), initializer.getFileAttr(),
          *initializer.getOffset(), *initializer.getLength(), stored,
          initializer.getTransposed());
    parameter = nn::ParameterOp::create(
        atTop, initializer.getLoc(), initializer.getSymNameAttr(),
        TypeAttr::get(RankedTensorType::get(shape, master)),
        initializer.getTrainable() ? atTop.getUnitAttr() : UnitAttr(),
        atTop.getStringAttr(
            initializer.getGraphName().value_or(initializer.getSymName())),
        source, initializer.getNamesAttr(), initializer.getAddendAttr(),
        /*argument=*/IntegerAttr());
  }
  Value value = nn::GetOp::create(
      b.builder, initializer.getLoc(), RankedTensorType::get(shape, stored),
      FlatSymbolRefAttr::get(initializer.getSymNameAttr()));
  return initializer.getTransposed() ? b.transpose(value, {1, 0}) : value;
}

void Initializers::eraseParameters() {
  for (auto &[initializer, parameter] : parameters)
    parameter.erase();
}

} // namespace shardonnx
