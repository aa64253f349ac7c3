// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merged parameters of files without a signature: the older exporter's, and
// what other tools have made of a graph.

#ifndef SHARDONNX_LIB_IMPORT_MERGEDBYPATH_H
#define SHARDONNX_LIB_IMPORT_MERGEDBYPATH_H

#include "InitializerTable.h"

namespace shardonnx {

/// The modules that nodes were written in. The older exporter writes "fc_1" for
/// the second call of module "fc": that is "fc" again, unless the file has
/// parameters of a module "fc_1".
class ModulePaths {
public:
  ModulePaths(const ::onnx::GraphProto &graph, const Metadata &metadata,
              llvm::ArrayRef<Initializer> initializers);
  std::string of(const ::onnx::NodeProto &node) const;

private:
  const Metadata &metadata;
  /// Modules with a node, and modules with a parameter.
  llvm::StringSet<> called, owning;
};

llvm::LogicalResult separateByPath(::onnx::GraphProto &graph,
                                   const Metadata &metadata,
                                   llvm::StringRef modelPath,
                                   InitializerTable &table,
                                   Diagnostics &diagnostics);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_MERGEDBYPATH_H
