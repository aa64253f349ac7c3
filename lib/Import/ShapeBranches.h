// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `If` nodes whose condition follows from shapes, as torch.jit.script and
// squeeze() of a dynamic dimension make them: once dimensions are bound they
// are no control flow.

#ifndef SHARDONNX_LIB_IMPORT_SHAPEBRANCHES_H
#define SHARDONNX_LIB_IMPORT_SHAPEBRANCHES_H

#include "shardonnx/Import/Import.h"

namespace onnx {
class ModelProto;
}

namespace shardonnx {

struct StrippedModel;

/// Puts the nodes of the branch that is taken in the place of each such `If`.
/// The dimensions of the model's inputs are bound; `stripped` tells which of
/// its initializers have bytes.
void takeBranchesByShape(::onnx::ModelProto &model,
                         const StrippedModel &stripped,
                         const ImportOptions::Conditions &conditionsOf);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_SHAPEBRANCHES_H
