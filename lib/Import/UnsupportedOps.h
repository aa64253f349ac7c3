// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that are refused before the ONNX library sees them: of an op that it does
// not know, it tells neither the types nor that there are more.

#ifndef SHARDONNX_LIB_IMPORT_UNSUPPORTEDOPS_H
#define SHARDONNX_LIB_IMPORT_UNSUPPORTEDOPS_H

#include "Metadata.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>

namespace shardonnx {

/// What is wrong with a graph that has ops of unknown domains, ops that no
/// opset has, or control flow: a list of them and of what `isKnown` refuses
/// beside them. Empty where the graph has none of these three. Until the bodies
/// of schemas are `expanded`, an op that has one may become anything.
std::string describeUnsupportedOps(
    const ::onnx::ModelProto &model, const Metadata &metadata,
    llvm::function_ref<bool(llvm::StringRef)> isKnown, bool expanded);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_UNSUPPORTEDOPS_H
