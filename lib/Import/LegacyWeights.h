// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights of files by PyTorch's older exporter, which Optimum uses, too. It
// folds the transpose of a linear layer's weight, so that the file has the
// transposed matrix under a name such as `onnx::MatMul_388`, and a copy of a
// tied one. No metadata tell; the node's name is the path of its module.

#ifndef SHARDONNX_LIB_IMPORT_LEGACYWEIGHTS_H
#define SHARDONNX_LIB_IMPORT_LEGACYWEIGHTS_H

#include "Parameters.h"

namespace onnx {
class GraphProto;
}

namespace shardonnx {

struct LegacyWeight {
  /// The initializer's name in the graph, and its state-dict name; empty where
  /// only `copyOf` is known.
  std::string name, target;
  /// The initializer that it is a copy of: one with the same target, or one
  /// that holds the matrix as it was. Empty: none.
  std::string copyOf;
  bool copyIsTransposed = false;
  /// False of a bias, which lost its name alone.
  bool transposed = true;
};

/// The weights of linear layers, in the order of their products, and biases
/// that have a number for a name.
std::vector<LegacyWeight>
findLegacyWeights(const ::onnx::GraphProto &graph, const Metadata &metadata,
                  const std::vector<Initializer> &initializers,
                  llvm::StringRef modelPath, bool untold);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_LEGACYWEIGHTS_H
