// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The exec dialect and what its op families share.

#ifndef SHARDONNX_DIALECT_EXEC_BASE
#define SHARDONNX_DIALECT_EXEC_BASE

include "mlir/IR/OpBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::shardonnx::exec";
  let summary = "A step as calls on planned memory";
  let description = [{
    No tensors, no gradients: each op names the buffers it reads and writes,
    and stands for one call of the runtime's ABI.
  }];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

class Exec_Op<string mnemonic, list<Trait> traits = []>
    : Op<Exec_Dialect, mnemonic, traits>;

// Operands that an op reads or writes: lifetimes and checks ask the effects, so
// they need not know the op.
def Exec_Read : Arg<AnyMemRef, "", [MemRead]>;
def Exec_Write : Arg<AnyMemRef, "", [MemWrite]>;

#endif // SHARDONNX_DIALECT_EXEC_BASE
