// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The file of --trace, in the format of Chrome's trace viewer, which Perfetto
// opens. Each rank writes a part beside it; the first rank of a machine joins
// those of its machine.

#ifndef SHARDONNX_RUNTIME_TRACEFILE_H
#define SHARDONNX_RUNTIME_TRACEFILE_H

#include "../core/Options.h"
#include "../core/Trace.h"
#include "shardonnx/runtime/Manifest.h"
#include <string>
#include <vector>

namespace shardonnx::rt {

class TraceFile {
public:
  /// `localRanks`: those of this rank's machine. The first of them throws an
  /// Error where the file cannot be written. `tag`: in the names of parts, the
  /// same on all ranks of this run and of no other.
  TraceFile(const Options &options, const Manifest &manifest, int rank,
            int worldSize, std::vector<int> localRanks, std::string tag);

  Trace trace;
  void writePart();
  /// When all ranks have written theirs: the file, and the table of unit times
  /// on standard error.
  void join();
  void discard(); // the part of a run that fails
  const std::string &path() const { return file; }

private:
  bool leads() const { return localRanks.front() == trace.rank; }
  std::string partOf(int rank) const;

  const Manifest &manifest;
  const int worldSize;
  const std::vector<int> localRanks;
  std::string file;
  const std::string tag;
  bool partExists = false;
};

/// FILE where all ranks are on one machine; else FILE with the ranks of this
/// one before its ending.
std::string traceFileName(const std::string &file, int worldSize,
                          const std::vector<int> &localRanks);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_TRACEFILE_H
