// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading files that people name as inputs: InputCheck.h.

#ifndef SHARDONNX_SUPPORT_INPUTFILE_H
#define SHARDONNX_SUPPORT_INPUTFILE_H

#include "shardonnx/Support/InputCheck.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/ErrorOr.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace shardonnx {

using InputBytes = llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>>;

/// As MemoryBuffer::getFile, of bytes or of text that a zero ends.
InputBytes readInputFile(const llvm::Twine &path, bool isText = false);
/// As MemoryBuffer::getFileSlice.
InputBytes readInputSlice(const llvm::Twine &path, uint64_t length,
                          uint64_t offset);

} // namespace shardonnx

#endif // SHARDONNX_SUPPORT_INPUTFILE_H
