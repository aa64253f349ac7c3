// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What PyTorch's older exporter does not keep of tensors of indices:
//
//  - `x[i, j]` becomes one Gather of the axes made one, at i * size + j. A
//    negative j counts from the end of its own axis in the module, and finds an
//    element of the row before in the file. So reads `x[rows, mask.argmin(1) -
//    1]` of a mask that has no end. A negative i finds the same in both.
//  - `x.index_put(i, y, accumulate=True)` becomes a ScatterND to zeros and a
//    sum, which keeps one of the elements that an index chooses twice. So do
//    `x.index_add()` and, in opsets before 16, `x.scatter_add()`, by
//    ScatterElements.

#ifndef SHARDONNX_LIB_IMPORT_LEGACYINDICES_H
#define SHARDONNX_LIB_IMPORT_LEGACYINDICES_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

namespace onnx {
class ModelProto;
}

namespace shardonnx {

/// In a checked file of the older exporter: adds the size of its axis to every
/// such index that is negative, and lets such scatters add up. What may be one
/// or a module's own arithmetic is warned of. `exported`: the opset of the
/// file, which may have been raised to `opset` since.
void mendLegacyIndices(::onnx::ModelProto &model, int opset, int exported,
                       llvm::function_ref<void(const llvm::Twine &)> warn);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_LEGACYINDICES_H
