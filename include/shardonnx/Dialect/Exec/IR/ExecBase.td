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
include "shardonnx/Dialect/Exec/IR/ExecInterfaces.td"

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

// A call of the runtime that computes. `methods` are those of its interface
// that it does not leave at their defaults. What nn ops become the call, its
// verifier and these methods stand in the file of its family beside the
// dialect.
class Exec_CallOp<string mnemonic, list<string> methods = [],
                  list<Trait> traits = []>
    : Exec_Op<mnemonic, !listconcat(
        [DeclareOpInterfaceMethods<RuntimeCallOpInterface, methods>],
        traits)> {
  let hasVerifier = 1;
}

// The trait of a call with an operand `workspace`.
defvar Exec_HasWorkspace = DeclareOpInterfaceMethods<WorkspaceOpInterface>;

// Operands that an op reads or writes: lifetimes and checks ask the effects, so
// they need not know the op.
def Exec_Read : Arg<AnyMemRef, "", [MemRead]>;
def Exec_Write : Arg<AnyMemRef, "", [MemWrite]>;

#endif // SHARDONNX_DIALECT_EXEC_BASE
