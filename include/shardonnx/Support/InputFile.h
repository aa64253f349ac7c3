// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files that people name as inputs. A named pipe would be waited for, perhaps
// for ever, and a device has no end: what is no regular file is an error.

#ifndef SHARDONNX_SUPPORT_INPUTFILE_H
#define SHARDONNX_SUPPORT_INPUTFILE_H

#include "llvm/ADT/Twine.h"
#include "llvm/Support/ErrorOr.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace shardonnx {

using InputBytes = llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>>;

/// Why the file cannot be an input, as far as that shows without opening it.
std::error_code checkInputFile(const llvm::Twine &path);

/// As MemoryBuffer::getFile, of bytes or of text that a zero ends.
InputBytes readInputFile(const llvm::Twine &path, bool isText = false);
/// As MemoryBuffer::getFileSlice.
InputBytes readInputSlice(const llvm::Twine &path, uint64_t length,
                          uint64_t offset);

} // namespace shardonnx

#endif // SHARDONNX_SUPPORT_INPUTFILE_H
