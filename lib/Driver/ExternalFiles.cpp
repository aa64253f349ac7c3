// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See ExternalFiles.h.

#include "ExternalFiles.h"

#include "shardonnx/Dialect/NN/IR/NN.h"

#include "llvm/Support/Chrono.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <set>

namespace fs = llvm::sys::fs;

namespace shardonnx {
namespace {

// A file that is open, or nothing.
class OpenFile {
public:
  explicit OpenFile(llvm::StringRef path) {
    llvm::Expected<fs::file_t> opened = fs::openNativeFileForRead(path);
    if (opened && !fs::status(*opened, status))
      file = *opened;
    llvm::consumeError(opened.takeError());
  }
  OpenFile(const OpenFile &) = delete;
  OpenFile &operator=(const OpenFile &) = delete;
  ~OpenFile() {
    if (file == fs::kInvalidFile)
      return;
    // It was only read.
    [[maybe_unused]] std::error_code closed = fs::closeFile(file);
  }
  bool isRegular() const {
    return file != fs::kInvalidFile &&
           status.type() == fs::file_type::regular_file;
  }
  int64_t bytes() const { return static_cast<int64_t>(status.getSize()); }
  int64_t modified() const {
    return status.getLastModificationTime().time_since_epoch().count();
  }
  bool read(void *to, int64_t at, int64_t count) const {
    auto *out = static_cast<char *>(to);
    while (count > 0) {
      llvm::Expected<size_t> n = fs::readNativeFileSlice(
          file, {out, static_cast<size_t>(count)}, static_cast<uint64_t>(at));
      if (!n || *n == 0) {
        llvm::consumeError(n.takeError());
        return false;
      }
      out += *n;
      at += static_cast<int64_t>(*n);
      count -= static_cast<int64_t>(*n);
    }
    return true;
  }

private:
  fs::file_t file = fs::kInvalidFile;
  fs::file_status status;
};

} // namespace

std::vector<std::string> externalFilesOf(mlir::ModuleOp module,
                                         llvm::StringRef modelPath) {
  std::set<std::string> names;
  for (auto parameter : module.getOps<nn::ParameterOp>())
    if (nn::ExternalAttr source = parameter.getSourceAttr())
      names.insert(source.getFile().getValue().str());
  names.erase(llvm::sys::path::filename(modelPath).str());
  return {names.begin(), names.end()};
}

ExternalFiles describeExternalFiles(const std::string &modelPath,
                                    const std::vector<std::string> &names) {
  auto pathOf = [&](const std::string &name) {
    llvm::SmallString<256> path(llvm::sys::path::parent_path(modelPath));
    llvm::sys::path::append(path, name);
    return path;
  };
  ExternalFiles all;
  int64_t bytes = 0;
  for (const std::string &name : names)
    if (uint64_t size = 0; !fs::file_size(pathOf(name), size))
      bytes += static_cast<int64_t>(size);
  all.hashedEvery = hashedEvery(bytes);
  for (const std::string &name : names) {
    OpenFile file(pathOf(name));
    if (!file.isRegular())
      continue;
    std::string hash =
        hashExternalFile(file.bytes(), all.hashedEvery,
                         [&](void *to, int64_t at, int64_t count) {
                           return file.read(to, at, count);
                         });
    if (!hash.empty())
      all.files.push_back({name, file.bytes(), file.modified(), hash});
  }
  return all;
}

} // namespace shardonnx
