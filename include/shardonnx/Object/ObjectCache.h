// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Objects of earlier compilations, by the content that they were made of. Who
// finds one gets the bytes that the code generator would give.

#ifndef SHARDONNX_OBJECT_OBJECTCACHE_H
#define SHARDONNX_OBJECT_OBJECTCACHE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace shardonnx {

class ObjectCache {
public:
  /// The user's own: `objects` in $SHARDONNX_CACHE_DIR,
  /// $XDG_CACHE_HOME/shardonnx or ~/.cache/shardonnx. None where there is no
  /// such folder and none can be made, where others may write to it, where
  /// SHARDONNX_CACHE=0 says so, or where this compiler cannot be told from
  /// others.
  static std::optional<ObjectCache> openDefault();

  /// The name of what is made of these bytes by this compiler.
  std::string keyOf(llvm::StringRef input) const;

  /// Any number of threads may ask. An entry that is not whole is none.
  std::optional<llvm::SmallVector<char, 0>> find(llvm::StringRef key) const;

  /// Appears whole or not at all; what cannot be written is not kept.
  void store(llvm::StringRef key, llvm::ArrayRef<char> object) const;

  /// Removes what was not used for longest, down to a bound.
  void prune() const;

private:
  ObjectCache(std::string folder, std::string compiler)
      : folder(std::move(folder)), compiler(std::move(compiler)) {}
  std::string path(llvm::StringRef key) const;

  std::string folder;
  std::string compiler; // what tells it from every other
};

} // namespace shardonnx

#endif // SHARDONNX_OBJECT_OBJECTCACHE_H
