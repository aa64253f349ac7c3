// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What nn-partition asks of an op.

#ifndef SHARDONNX_DIALECT_NN_SHARDABLE
#define SHARDONNX_DIALECT_NN_SHARDABLE

include "mlir/IR/OpBase.td"

def ShardableOpInterface : OpInterface<"ShardableOpInterface"> {
  let cppNamespace = "::shardonnx::nn";
  let description = [{
    An op that ranks can compute in parts. Each family attaches it to its ops
    as an external model (lib/Dialect/NN/IR/Shardable.h), so that NN.h need not
    know of meshes.
  }];
  let methods = [
    InterfaceMethod<[{
      Of an op some of whose operands are split: what each operand is to be, and
      what the results then are. Failure, with the reason in the query, where
      the op can only be computed whole.
    }],
    "::llvm::LogicalResult", "shard",
    (ins "::shardonnx::nn::ShardingQuery &":$query)>,
    InterfaceMethod<[{
      Changes attributes that tell sizes of the whole tensors, which the op has
      had so far, to those of a rank's part.
    }],
    "void", "makeLocal", (ins "const ::shardonnx::nn::ShardingQuery &":$query),
    "", "return;">
  ];
}

#endif // SHARDONNX_DIALECT_NN_SHARDABLE
