// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See RefusedOps.h.

#include "shardonnx/Support/RefusedOps.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace shardonnx {

void RefusedOps::add(StringRef domain, StringRef op, StringRef node,
                     StringRef why) {
  std::string name = domain.empty() ? op.str() : (domain + "::" + op).str();
  Refused &entry = refused[name];
  if (entry.count++ == 0)
    entry.why = why.str();
  if (entry.nodes.size() < 3)
    entry.nodes.push_back(node.str());
}

std::string RefusedOps::list() const {
  std::string list;
  for (const auto &[op, entry] : refused) {
    list += list.empty() ? "" : "; ";
    list += op + " ×" + std::to_string(entry.count) + " (";
    for (auto [i, node] : enumerate(entry.nodes))
      list += (i ? ", '" : "'") + node + "'";
    list += entry.count > entry.nodes.size() ? ", …)" : ")";
    list += entry.why.empty() ? "" : ": " + entry.why;
  }
  return list;
}

} // namespace shardonnx
