// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See InputFile.h.

#include "shardonnx/Support/InputFile.h"

#include "llvm/Support/FileSystem.h"

namespace shardonnx {
namespace {

using llvm::sys::fs::file_type;

/// Errors whose values are types of files.
class NotRegular : public std::error_category {
public:
  const char *name() const noexcept override { return "shardonnx.input"; }
  std::string message(int type) const override {
    switch (static_cast<file_type>(type)) {
    case file_type::fifo_file:
      return "it is a pipe, not a regular file";
    case file_type::socket_file:
      return "it is a socket, not a regular file";
    default:
      return "it is a device, not a regular file";
    }
  }
};

} // namespace

std::error_code checkInputFile(const std::string &path) {
  static const NotRegular category;
  llvm::sys::fs::file_status status;
  if (std::error_code error = llvm::sys::fs::status(path, status))
    return error;
  if (status.type() == file_type::directory_file)
    return std::make_error_code(std::errc::is_a_directory);
  if (status.type() != file_type::regular_file)
    return {static_cast<int>(status.type()), category};
  return {};
}

InputBytes readInputFile(const llvm::Twine &path, bool isText) {
  if (std::error_code error = checkInputFile(path.str()))
    return error;
  return llvm::MemoryBuffer::getFile(path, isText,
                                     /*RequiresNullTerminator=*/isText);
}

InputBytes readInputSlice(const llvm::Twine &path, uint64_t length,
                          uint64_t offset) {
  if (std::error_code error = checkInputFile(path.str()))
    return error;
  return llvm::MemoryBuffer::getFileSlice(path, length, offset);
}

} // namespace shardonnx
