// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether what a program is about to write is something that it reads.

#ifndef SHARDONNX_RUNTIME_SAMEFILE_H
#define SHARDONNX_RUNTIME_SAMEFILE_H

#include <filesystem>
#include <string>
#include <system_error>

namespace shardonnx {

/// Under whatever names; neither need be there.
inline bool isSameFile(const std::string &one, const std::string &other) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::equivalent(one, other, error)) // by a link, too
    return true;
  error.clear();
  auto whole = [&](const std::string &path) {
    return fs::weakly_canonical(fs::absolute(path, error), error);
  };
  return whole(one) == whole(other) && !error;
}

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_SAMEFILE_H
