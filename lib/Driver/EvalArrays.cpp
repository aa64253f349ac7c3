// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See EvalArrays.h. Files are read by slices that are checked against their
// size.

#include "EvalArrays.h"

#include "shardonnx/Support/ElementType.h"
#include "shardonnx/runtime/Npy.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;

namespace shardonnx {

std::string numpyDescr(Type type) {
  if (type.isBF16())
    return "<V2";
  if (type.isInteger(1))
    return "|b1";
  int64_t bytes = elementBytes(type);
  const char *kind = isa<FloatType>(type)       ? "f"
                     : type.isUnsignedInteger() ? "u"
                                                : "i";
  return (bytes == 1 ? "|" : "<") + std::string(kind) + std::to_string(bytes);
}

std::string typeName(Type type) {
  if (type.isBF16())
    return "bfloat16";
  if (type.isInteger(1))
    return "bool";
  const char *kind = isa<FloatType>(type)       ? "float"
                     : type.isUnsignedInteger() ? "uint"
                                                : "int";
  return kind + std::to_string(type.getIntOrFloatBitWidth());
}

bool holds(StringRef descr, Type type) {
  return descr == numpyDescr(type) || (type.isBF16() && descr == "|V2");
}

// What the descr says of an element; 0 for what no input has.
static int64_t descrBytes(StringRef descr) {
  int64_t bytes = 0;
  if (descr.size() < 3 || !StringRef("<|").contains(descr[0]) ||
      !StringRef("fiubV").contains(descr[1]) ||
      descr.substr(2).getAsInteger(10, bytes) || bytes < 1 || bytes > 8)
    return 0;
  return bytes;
}

// Why the file cannot be an input; empty if it can.
static std::string readHeader(EvalInput &input) {
  uint64_t fileBytes = 0;
  if (std::error_code error = llvm::sys::fs::file_size(input.path, fileBytes))
    return "cannot be read: " + error.message();
  if (!llvm::sys::fs::is_regular_file(input.path))
    return "is no regular file";
  auto start = llvm::MemoryBuffer::getFileSlice(
      input.path, std::min<uint64_t>(fileBytes, kLargestNpyHeader + 12), 0);
  if (!start)
    return "cannot be read: " + start.getError().message();
  std::string error;
  std::optional<NpyHeader> header = parseNpyHeader(
      std::string_view((*start)->getBufferStart(), (*start)->getBufferSize()),
      error);
  if (!header)
    return "cannot be read: " + error;
  int64_t bytes = descrBytes(header->descr);
  if (bytes == 0)
    return "has dtype '" + header->descr +
           "', which no input has; save it as little-endian numbers or bool";
  if (header->fortranOrder && header->shape.size() > 1)
    return "is in Fortran order: save np.ascontiguousarray of it";
  for (int64_t size : header->shape)
    if (llvm::MulOverflow(bytes, size, bytes))
      return "is too large";
  if (header->length + bytes != int64_t(fileBytes))
    return "has another size than its shape says";
  input.descr = header->descr;
  input.shape = header->shape;
  input.offset = header->length;
  return "";
}

FailureOr<EvalInput> readEvalInput(StringRef argument,
                                   Diagnostics &diagnostics) {
  EvalInput input;
  // A name may have a '=' in it, as a path may: the file must exist.
  size_t split = argument.find('=');
  for (size_t at = split; at != StringRef::npos;
       at = argument.find('=', at + 1))
    if (llvm::sys::fs::exists(argument.substr(at + 1))) {
      split = at;
      break;
    }
  input.name = argument.substr(0, split).str();
  input.path = argument.substr(split + 1).str();
  std::string why = readHeader(input);
  if (!why.empty())
    return diagnostics.error(input.source() + " " + why);
  return input;
}

FailureOr<DenseElementsAttr> readElements(const EvalInput &input,
                                          RankedTensorType type,
                                          Diagnostics &diagnostics) {
  Type element = type.getElementType();
  uint64_t bytes = uint64_t(elementBytes(element) * type.getNumElements());
  auto buffer = llvm::MemoryBuffer::getFileSlice(input.path, bytes,
                                                 uint64_t(input.offset));
  if (!buffer || (*buffer)->getBufferSize() != bytes)
    return diagnostics.error(input.source() + " cannot be read");
  ArrayRef<char> data((*buffer)->getBufferStart(), bytes);
  if (element.isInteger(1)) {
    SmallVector<bool> values;
    for (char byte : data)
      values.push_back(byte != 0);
    return DenseElementsAttr::get(type, values);
  }
  if (data.empty())
    return DenseElementsAttr::get(type, ArrayRef<Attribute>());
  return DenseElementsAttr::getFromRawBuffer(type, data);
}

std::string npyOf(DenseElementsAttr value) {
  ShapedType type = value.getType();
  Type element = type.getElementType();
  std::vector<int64_t> shape(type.getShape().begin(), type.getShape().end());
  std::string bytes = makeNpyHeader(numpyDescr(element), shape);
  size_t size = size_t(elementBytes(element));
  auto append = [&](const llvm::APInt &bits) {
    uint64_t word = bits.getZExtValue();
    bytes.append(reinterpret_cast<const char *>(&word), size);
  };
  if (type.getNumElements() == 0)
    return bytes;
  if (!value.isSplat() && !element.isInteger(1))
    return bytes.append(value.getRawData().data(), value.getRawData().size());
  if (isa<FloatType>(element))
    for (const llvm::APFloat &each : value.getValues<llvm::APFloat>())
      append(each.bitcastToAPInt());
  else
    for (const llvm::APInt &each : value.getValues<llvm::APInt>())
      append(each);
  return bytes;
}

std::string fileNameOf(StringRef name) {
  std::string result;
  for (unsigned char c : name) {
    if (llvm::isAlnum(char(c)) || StringRef("_.-~").contains(char(c)))
      result += char(c);
    else
      result += "%" + llvm::utohexstr(c, /*LowerCase=*/false, /*Width=*/2);
  }
  return result;
}

} // namespace shardonnx
