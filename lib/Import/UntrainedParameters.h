// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which parameters of the module the graph does not have, or has in part, and
// why: nothing reads them, or the exporter has folded them, left them out, or
// given them another name.

#ifndef SHARDONNX_LIB_IMPORT_UNTRAINEDPARAMETERS_H
#define SHARDONNX_LIB_IMPORT_UNTRAINEDPARAMETERS_H

#include "Parameters.h"

namespace onnx {
class GraphProto;
}

namespace shardonnx {

/// Adds them to `untrained`. Without the author's word or a signature none is
/// known.
void listMissing(const ::onnx::GraphProto &graph, const Metadata &metadata,
                 llvm::StringRef modelPath,
                 llvm::ArrayRef<Initializer> initializers, bool forTraining,
                 std::vector<Untrained> &untrained);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_UNTRAINEDPARAMETERS_H
