// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where external tensors lie. A model is untrusted input: a location must stay
// inside the model's folder, and a range inside its file.

#ifndef SHARDONNX_LIB_IMPORT_EXTERNALDATA_H
#define SHARDONNX_LIB_IMPORT_EXTERNALDATA_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>

namespace onnx {
class TensorProto;
}

namespace shardonnx {

struct ExternalRange {
  /// Relative to the model's folder.
  std::string file;
  uint64_t offset = 0;
  uint64_t length = 0;
};

/// Resolves the external data of `tensor`, which takes `bytes` bytes. A file
/// that does not exist is no error here, since training may need none of it.
llvm::Expected<ExternalRange>
resolveExternalData(const ::onnx::TensorProto &tensor, uint64_t bytes,
                    llvm::StringRef modelPath);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_EXTERNALDATA_H
