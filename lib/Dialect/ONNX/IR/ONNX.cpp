// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers, printing and attribute access of the `onnx` dialect.

#include "shardonnx/Dialect/ONNX/IR/ONNX.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace shardonnx::onnx;

#include "shardonnx/Dialect/ONNX/IR/ONNXOpsDialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "shardonnx/Dialect/ONNX/IR/ONNXOpsTypes.cpp.inc"

void ONNXDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "shardonnx/Dialect/ONNX/IR/ONNXOpsTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "shardonnx/Dialect/ONNX/IR/ONNXOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// InitializerOp
//===----------------------------------------------------------------------===//

/// True when `path` names a file below the model's folder.
static bool staysInFolder(StringRef path) {
  if (path.empty() || llvm::sys::path::is_absolute(path))
    return false;
  return llvm::none_of(llvm::make_range(llvm::sys::path::begin(path),
                                        llvm::sys::path::end(path)),
                       [](StringRef part) { return part == ".."; });
}

LogicalResult InitializerOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (!type.hasStaticShape())
    return emitOpError("needs a static shape");
  if (bool(getFile()) == bool(getValue()))
    return emitOpError("needs either the file of its bytes or a value");
  if (auto value = getValue()) {
    if (value->getType() != type)
      return emitOpError("has a value of another type: ") << value->getType();
    return success();
  }
  if (!staysInFolder(*getFile()))
    return emitOpError("file '") << *getFile() << "' leaves the model's folder";
  if (static_cast<int64_t>(*getOffset()) < 0 ||
      static_cast<int64_t>(*getLength()) < 0)
    return emitOpError("has a negative offset or length");
  if (!type.getElementType().isIntOrFloat())
    return success();
  // ONNX stores booleans as bytes.
  uint64_t width =
      llvm::divideCeil(type.getElementType().getIntOrFloatBitWidth(), 8);
  uint64_t bytes = width;
  for (int64_t dim : type.getShape())
    bytes = llvm::SaturatingMultiply(bytes, static_cast<uint64_t>(dim));
  // None at all: zeros.
  if (*getLength() != 0 && bytes != *getLength())
    return emitOpError("needs ")
           << bytes << " bytes for " << type << ", not " << *getLength();
  return success();
}

//===----------------------------------------------------------------------===//
// NodeOp
//===----------------------------------------------------------------------===//

static ParseResult parseNodeAttributes(OpAsmParser &parser,
                                       DictionaryAttr &attrs) {
  NamedAttrList list;
  if (parser.parseOptionalAttrDict(list))
    return failure();
  attrs = list.getDictionary(parser.getContext());
  return success();
}

static void printNodeAttributes(OpAsmPrinter &printer, Operation *,
                                DictionaryAttr attrs) {
  printer.printOptionalAttrDict(attrs.getValue());
}

LogicalResult NodeOp::verify() {
  if (getOpType().empty())
    return emitOpError("has no op type");
  for (Type type : getResultTypes())
    if (isa<NoneType>(type))
      return emitOpError("cannot produce an absent value");
  return success();
}

int64_t NodeOp::getInt(StringRef name, int64_t byDefault) {
  auto attr = dyn_cast_or_null<IntegerAttr>(getNodeAttr(name));
  return attr ? attr.getInt() : byDefault;
}

double NodeOp::getFloat(StringRef name, double byDefault) {
  auto attr = dyn_cast_or_null<FloatAttr>(getNodeAttr(name));
  return attr ? attr.getValueAsDouble() : byDefault;
}

StringRef NodeOp::getString(StringRef name, StringRef byDefault) {
  auto attr = dyn_cast_or_null<StringAttr>(getNodeAttr(name));
  return attr ? attr.getValue() : byDefault;
}

bool NodeOp::getInts(StringRef name, SmallVectorImpl<int64_t> &values) {
  auto attr = dyn_cast_or_null<DenseI64ArrayAttr>(getNodeAttr(name));
  if (!attr)
    return false;
  values.assign(attr.asArrayRef().begin(), attr.asArrayRef().end());
  return true;
}

Value NodeOp::getInput(unsigned index) {
  if (index >= getInputs().size())
    return {};
  Value value = getInputs()[index];
  return isa<NoneType>(value.getType()) ? Value() : value;
}

#define GET_OP_CLASSES
#include "shardonnx/Dialect/ONNX/IR/ONNXOps.cpp.inc"
