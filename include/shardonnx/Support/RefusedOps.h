// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ops of a graph that are refused, as every error lists them.

#ifndef SHARDONNX_SUPPORT_REFUSEDOPS_H
#define SHARDONNX_SUPPORT_REFUSEDOPS_H

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace shardonnx {

class RefusedOps {
public:
  /// `domain` is empty for the standard's own ops. Of each op the first reason
  /// is said.
  void add(llvm::StringRef domain, llvm::StringRef op, llvm::StringRef node,
           llvm::StringRef why = {});

  bool empty() const { return refused.empty(); }

  /// "Frob ×4 ('a', 'b', 'c', …): why; com.example::Relu ×1 ('d')".
  std::string list() const;

private:
  struct Refused {
    unsigned count = 0;
    llvm::SmallVector<std::string, 3> nodes;
    std::string why;
  };
  llvm::MapVector<std::string, Refused, llvm::StringMap<unsigned>> refused;
};

} // namespace shardonnx

#endif // SHARDONNX_SUPPORT_REFUSEDOPS_H
