// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `If` nodes whose condition is known are no control flow.

#ifndef SHARDONNX_LIB_IMPORT_CONSTANTBRANCHES_H
#define SHARDONNX_LIB_IMPORT_CONSTANTBRANCHES_H

#include "llvm/ADT/StringMap.h"

#include <optional>

namespace onnx {
class GraphProto;
class NodeProto;
class TensorProto;
} // namespace onnx

namespace shardonnx {

/// Of one element of type bool.
std::optional<bool> truthOf(const ::onnx::TensorProto &tensor);
/// Of a Constant's value.
std::optional<bool> truthOfConstant(const ::onnx::NodeProto &node);

/// Puts the nodes of the branch that is taken in the place of each `If` whose
/// condition is an initializer or a Constant, or made of one by Cast or Not.
/// Values of the branch that are named as others are get new names; a branch
/// with weights of its own stays. Once the initializers have left the inputs,
/// those that may be given another value are not told from others:
/// `byInitializers` is false.
void takeConstantBranches(::onnx::GraphProto &graph,
                          bool byInitializers = true);

/// The same where the condition is a key of `truths`.
void takeKnownBranches(::onnx::GraphProto &graph,
                       const llvm::StringMap<bool> &truths);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_CONSTANTBRANCHES_H
