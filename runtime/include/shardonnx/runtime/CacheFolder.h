// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where compiler and runtime keep for this user what they can make again.

#ifndef SHARDONNX_RUNTIME_CACHEFOLDER_H
#define SHARDONNX_RUNTIME_CACHEFOLDER_H

#include <cstdlib>
#include <string>

namespace shardonnx::rt {

/// $SHARDONNX_CACHE_DIR, $XDG_CACHE_HOME/shardonnx, ~/.cache/shardonnx, or
/// empty: the environment names none.
inline std::string cacheFolder() {
  auto variable = [](const char *name) {
    const char *value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (std::string folder = variable("SHARDONNX_CACHE_DIR"); !folder.empty())
    return folder;
  if (std::string folder = variable("XDG_CACHE_HOME"); !folder.empty())
    return folder + "/shardonnx";
  if (std::string home = variable("HOME"); !home.empty())
    return home + "/.cache/shardonnx";
  return {};
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CACHEFOLDER_H
