// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See ExternalFiles.h.

#include "ExternalFiles.h"

#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Driver/Compilation.h"
#include "shardonnx/Support/InputFile.h"

#include "llvm/Support/Chrono.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cstring>
#include <set>

namespace fs = llvm::sys::fs;

namespace shardonnx {

std::string pathBeside(llvm::StringRef modelPath, llvm::StringRef name) {
  llvm::SmallString<256> path(llvm::sys::path::parent_path(modelPath));
  llvm::sys::path::append(path, name);
  return path.str().str();
}

FileHash hashOfFile(const std::string &path, int64_t every) {
  uint64_t size = 0;
  if (std::error_code error = fs::file_size(path, size))
    return {{}, error};
  std::error_code error;
  std::string hex =
      hashExternalFile(static_cast<int64_t>(size), every,
                       [&](void *to, int64_t at, int64_t count) {
                         InputBytes part =
                             readInputSlice(path, static_cast<uint64_t>(count),
                                            static_cast<uint64_t>(at));
                         error = part.getError();
                         if (!error)
                           std::memcpy(to, (*part)->getBufferStart(),
                                       static_cast<size_t>(count));
                         return !error;
                       });
  return {hex, error};
}

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
  ExternalFiles all;
  int64_t bytes = 0;
  for (const std::string &name : names)
    if (uint64_t size = 0; !fs::file_size(pathBeside(modelPath, name), size))
      bytes += static_cast<int64_t>(size);
  all.hashedEvery = hashedEvery(bytes);
  for (const std::string &name : names) {
    std::string path = pathBeside(modelPath, name);
    fs::file_status status;
    if (fs::status(path, status) ||
        status.type() != fs::file_type::regular_file)
      continue;
    FileHash hash = hashOfFile(path, all.hashedEvery);
    if (!hash.error)
      all.files.push_back(
          {name, static_cast<int64_t>(status.getSize()),
           status.getLastModificationTime().time_since_epoch().count(),
           hash.hex});
  }
  return all;
}

} // namespace shardonnx
