// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `If` nodes whose condition follows from shapes, as torch.jit.script and
// squeeze() of a dynamic dimension make them, and loops whose number of turns
// does: once dimensions are bound they are no control flow.

#ifndef SHARDONNX_LIB_IMPORT_FLOWBYSHAPE_H
#define SHARDONNX_LIB_IMPORT_FLOWBYSHAPE_H

#include "shardonnx/Import/Import.h"
#include "llvm/ADT/StringSet.h"

namespace onnx {
class ModelProto;
}

namespace shardonnx {

struct StrippedModel;

/// What is known of the values of a model's initializers.
struct KnownInitializers {
  /// Which of them have bytes; null once all that are left do.
  const StrippedModel *stripped;
  /// Those whose values are not for ever: also inputs of the file, which may be
  /// given others, or weights, which training changes.
  const llvm::StringSet<> &changing;
};

/// Puts the nodes of the branch that is taken in the place of each such `If`,
/// and all turns of its body in that of each such `Loop` and `Scan`. The
/// dimensions of the model's inputs are bound; `opset` is that of its default
/// domain.
void resolveFlowByShape(::onnx::ModelProto &model, int opset,
                        const KnownInitializers &known,
                        const ImportOptions::FoldNumbers &foldNumbers);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_FLOWBYSHAPE_H
