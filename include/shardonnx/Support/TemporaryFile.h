// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A file that must not outlive a failure: removed when the guard ends, and when
// a signal ends the program.

#ifndef SHARDONNX_SUPPORT_TEMPORARYFILE_H
#define SHARDONNX_SUPPORT_TEMPORARYFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/ErrorOr.h"
#include "llvm/Support/FileUtilities.h"

#include <memory>
#include <string>

namespace shardonnx {

class TemporaryFile {
public:
  /// Guards a file that exists.
  explicit TemporaryFile(llvm::StringRef path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;

  /// Makes an empty file of a new name beside `target`, on the same file
  /// system, open as `descriptor`. Unlike LLVM's createUniqueFile it takes a
  /// '%' in `target` for what it is.
  static std::error_code createBeside(llvm::StringRef target, int &descriptor,
                                      std::string &path);

  /// A file of a new name in the system's temporary folder, with this content.
  static llvm::ErrorOr<std::unique_ptr<TemporaryFile>>
  createHolding(llvm::StringRef prefix, llvm::StringRef suffix,
                llvm::StringRef content);

  llvm::StringRef getPath() const { return path; }

  /// Before a file of that name is made. A signal that whoever started this
  /// program ignores (nohup, a script's jobs in the background) stays ignored.
  static void removeOnSignal(llvm::StringRef path);

  /// Gives the file its final name, at which it stays.
  std::error_code moveTo(llvm::StringRef target);

private:
  std::string path;
  llvm::FileRemover remover;
};

/// What is said where a file in the system's temporary folder cannot be made or
/// written.
std::string cannotWriteTemporary(std::error_code error);

} // namespace shardonnx

#endif // SHARDONNX_SUPPORT_TEMPORARYFILE_H
