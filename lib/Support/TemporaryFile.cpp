// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See TemporaryFile.h.

#include "shardonnx/Support/TemporaryFile.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <array>
#include <csignal>

namespace shardonnx {

void TemporaryFile::removeOnSignal(llvm::StringRef path) {
  constexpr std::array<int, 3> kSignals = {SIGHUP, SIGINT, SIGTERM};
  std::array<bool, kSignals.size()> ignored = {};
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action{};
    ::sigaction(kSignals[i], nullptr, &action);
    ignored[i] = action.sa_handler == SIG_IGN;
  }
  llvm::sys::RemoveFileOnSignal(path);
  // LLVM's handlers take all of them.
  for (size_t i = 0; i < kSignals.size(); ++i)
    if (ignored[i])
      std::signal(kSignals[i], SIG_IGN);
  // A full quota is an error of write(2) here and in the programs that we
  // start.
  std::signal(SIGXFSZ, SIG_IGN);
}

std::string cannotWriteTemporary(std::error_code error) {
  llvm::SmallString<128> folder;
  llvm::sys::path::system_temp_directory(/*erasedOnReboot=*/true, folder);
  return "cannot write to the temporary folder '" + folder.str().str() +
         "': " + error.message() + "; TMPDIR=DIR names another";
}

TemporaryFile::TemporaryFile(llvm::StringRef path) : path(path), remover(path) {
  removeOnSignal(path);
}

TemporaryFile::~TemporaryFile() { llvm::sys::DontRemoveFileOnSignal(path); }

std::error_code TemporaryFile::createBeside(llvm::StringRef target,
                                            int &descriptor,
                                            std::string &path) {
  std::error_code error;
  for (int attempt = 0; attempt < 128; ++attempt) {
    llvm::SmallString<32> suffix;
    llvm::sys::fs::createUniquePath(".tmp-%%%%%%", suffix,
                                    /*MakeAbsolute=*/false);
    path = (target + suffix).str();
    // First, so that no signal finds a file that nobody would remove.
    removeOnSignal(path);
    error = llvm::sys::fs::openFileForWrite(path, descriptor,
                                            llvm::sys::fs::CD_CreateNew);
    if (!error)
      return error;
    llvm::sys::DontRemoveFileOnSignal(path);
    if (error != std::errc::file_exists)
      return error;
  }
  return error;
}

llvm::ErrorOr<std::unique_ptr<TemporaryFile>>
TemporaryFile::createHolding(llvm::StringRef prefix, llvm::StringRef suffix,
                             llvm::StringRef content) {
  llvm::SmallString<128> name;
  int descriptor = -1;
  if (std::error_code error =
          llvm::sys::fs::createTemporaryFile(prefix, suffix, descriptor, name))
    return error;
  auto file = std::make_unique<TemporaryFile>(name);
  llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream << content;
  stream.close();
  std::error_code error = stream.error();
  stream.clear_error(); // it would end the program
  if (error)
    return error;
  return file;
}

std::error_code TemporaryFile::moveTo(llvm::StringRef target) {
  if (std::error_code error = llvm::sys::fs::rename(path, target))
    return error;
  remover.releaseFile();
  return {};
}

} // namespace shardonnx
