// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A reader of protobuf's wire format that separates a model's structure from
// its weights. Parsing a file with protobuf itself would copy every weight and
// ends at 2 GB; this walks the mapped file, copies what is small, and remembers
// where in the file each large tensor's bytes lie.

#ifndef SHARDONNX_LIB_IMPORT_WIREFORMAT_H
#define SHARDONNX_LIB_IMPORT_WIREFORMAT_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace shardonnx {

/// Where the bytes of one initializer lie in the ONNX file.
struct InitializerBytes {
  uint64_t offset = 0;
  uint64_t length = 0;
  /// The bytes are little-endian elements, as a mapped file needs them. False
  /// for data that is external, absent, or stored as variable-length integers.
  bool mappable = false;
  /// The data was left out of the stripped model.
  bool stripped = false;
  /// It was the value of a Constant node.
  bool isConstant = false;
};

struct StrippedModel {
  /// A serialized ModelProto without the data of large initializers.
  std::string bytes;
  /// One entry per graph.initializer, in order.
  std::vector<InitializerBytes> initializers;
};

/// Strips `file`, the bytes of an ONNX file. Data of more than `limit` bytes is
/// left out.
llvm::Expected<StrippedModel> stripModel(llvm::StringRef file,
                                         uint64_t limit = 1024);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_WIREFORMAT_H
