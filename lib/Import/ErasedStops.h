// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums and products that only a detach() explains, which the exporter has
// erased without a trace.

#ifndef SHARDONNX_LIB_IMPORT_ERASEDSTOPS_H
#define SHARDONNX_LIB_IMPORT_ERASEDSTOPS_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace onnx {
class GraphProto;
}

namespace shardonnx {

/// What the first node computes that is no more than one of its terms, in the
/// manner of straight-through estimators: x + (y - x).detach() and
/// x - x.detach(), or the same of factors. Empty where there is none, or none
/// that depends on what `isTrained`.
std::string findErasedStop(const ::onnx::GraphProto &graph,
                           llvm::function_ref<bool(llvm::StringRef)> isTrained);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_ERASEDSTOPS_H
