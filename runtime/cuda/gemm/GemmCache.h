// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The algorithms that were fastest here before, in a file for each kind of GPU
// and version of the library and driver. The file is a hint: what is wrong
// with it costs a warning and the time to choose anew, never a run. It is
// replaced whole by renaming, so that a reader never sees half of it, and two
// writers at once lose at most what one of them had to add.

#ifndef SHARDONNX_RUNTIME_CUDA_GEMMCACHE_H
#define SHARDONNX_RUNTIME_CUDA_GEMMCACHE_H

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace shardonnx::rt::cuda {

/// What a choice of an algorithm is good for.
struct GemmMachine {
  std::string gpu; // its name
  int32_t major = 0, minor = 0;
  int64_t library = 0; // cublasLtGetVersion
  int32_t driver = 0;  // cuDriverGetVersion
};

struct GemmChoice {
  /// Whether the library does the epilogue; else a kernel of ours does, after
  /// the plain product.
  bool fused = false;
  /// cublasLtMatmulAlgo_t, which may be kept for the same version.
  std::array<uint64_t, 8> algorithm{};
};

class GemmCache {
public:
  /// Reads the machine's file in `folder`; an empty folder means no file.
  GemmCache(const std::string &folder, const GemmMachine &machine);

  const GemmChoice *find(const std::string &key) const;
  void add(const std::string &key, const GemmChoice &choice);
  /// Writes what was added together with what others have written since.
  void save();

  const std::string &path() const { return file; }

private:
  using Entries = std::map<std::string, GemmChoice>;
  std::string text(const Entries &entries) const;
  Entries read();
  void warn(const std::string &message);

  GemmMachine machine;
  std::string folder, file;
  Entries entries, added;
  bool warned = false;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_GEMMCACHE_H
