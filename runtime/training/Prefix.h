// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names of one model that were written from different places in it: inside a
// wrapper (`model.`, `module.`) or without one.

#ifndef SHARDONNX_RUNTIME_PREFIX_H
#define SHARDONNX_RUNTIME_PREFIX_H

#include <map>
#include <string>
#include <vector>

namespace shardonnx::rt {

/// What the file has before a name of the program, or lacks.
struct Prefix {
  std::string added, removed; // with their dots; one of them at most
  bool empty() const { return added.empty() && removed.empty(); }
};

/// The file's name for one of the program's. Of names that have not what the
/// file lacks, the same: heads stand beside the model that has a prefix.
std::string withPrefix(const Prefix &prefix, const std::string &name);
/// As in "with the prefix 'model.'".
std::string describe(const Prefix &prefix);

/// The name without the segments that PyTorch's wrappers put into it
/// (`_orig_mod`).
std::string withoutWrappers(std::string name);

/// The prefixes under which the file has one of the names of every parameter.
/// None at all comes first, and alone.
std::vector<Prefix>
findPrefixes(const std::vector<std::vector<std::string>> &parameters,
             const std::map<std::string, std::string> &file);

/// Where there is none: the one under which the file has more than half of the
/// parameters, for the message that names the others; else none.
Prefix likeliestPrefix(const std::vector<std::vector<std::string>> &parameters,
                       const std::map<std::string, std::string> &file);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_PREFIX_H
