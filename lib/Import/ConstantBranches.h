// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `If` nodes whose condition the graph itself says are no control flow.

#ifndef SHARDONNX_LIB_IMPORT_CONSTANTBRANCHES_H
#define SHARDONNX_LIB_IMPORT_CONSTANTBRANCHES_H

namespace onnx {
class GraphProto;
}

namespace shardonnx {

/// Puts the nodes of the branch that is taken in the place of each `If` whose
/// condition is an initializer or a Constant, or made of one by Cast or Not. An
/// `If` whose branch has initializers of its own, or names a value as another
/// does, stays. Once the initializers have left the inputs, those that may be
/// given another value are not told from others: `byInitializers` is false.
void takeConstantBranches(::onnx::GraphProto &graph,
                          bool byInitializers = true);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_CONSTANTBRANCHES_H
