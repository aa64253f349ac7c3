// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values that are computed alike. Exporters that do not look for these write
// `logits[labels != -100]` and `labels[labels != -100]` as picks by two masks.

#ifndef SHARDONNX_LIB_IMPORT_SAMEVALUES_H
#define SHARDONNX_LIB_IMPORT_SAMEVALUES_H

#include "KnownTensors.h"

#include <string>

namespace shardonnx {

class SameValues {
public:
  /// Of a graph whose nodes come behind what they read.
  SameValues(const ::onnx::GraphProto &graph, const KnownTensors &known);

  /// The first value that is the same as this one.
  std::string firstLike(llvm::StringRef name) const {
    auto found = firsts.find(name);
    return found == firsts.end() ? name.str() : found->second;
  }

private:
  void visit(const ::onnx::NodeProto &node, const KnownTensors &known);

  llvm::StringMap<std::string> firsts;   // by the names of others
  llvm::StringMap<std::string> computed; // names, by how they are computed
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_SAMEVALUES_H
