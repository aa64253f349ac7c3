// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What passes ask about library calls, so that a new call touches no pass: of
// the nn op that becomes one, and of the exec op that is one.

#ifndef SHARDONNX_DIALECT_EXEC_INTERFACES
#define SHARDONNX_DIALECT_EXEC_INTERFACES

include "mlir/IR/OpBase.td"

def LibraryCallOpInterface : OpInterface<"LibraryCallOpInterface"> {
  let cppNamespace = "::shardonnx::exec";
  let description = [{
    An nn op that becomes a call of the runtime. The nn dialect knows nothing
    of memory, so the exec op of the call attaches this to it as an external
    model (`RuntimeCallOpInterface::attachLibraryCalls`).
  }];
  let methods = [
    InterfaceMethod<[{
      Can the call write the result where this layout says? Its elements lie at
      different places.
    }],
    "bool", "canWrite",
    (ins "unsigned":$result, "const ::shardonnx::exec::Layout &":$layout),
    "", "return false;">,
    InterfaceMethod<[{
      Can the call add the result to what lies in a layout that it can write?
    }],
    "bool", "canAccumulate", (ins "unsigned":$result), "", "return false;">,
    InterfaceMethod<[{
      Creates the exec ops of the call, on operands in layouts that it takes.
    }],
    "void", "emitCall", (ins "::shardonnx::exec::CallEmitter &":$emitter)>
  ];
}

def RuntimeCallOpInterface : OpInterface<"RuntimeCallOpInterface"> {
  let cppNamespace = "::shardonnx::exec";
  let description = [{
    A call of the runtime's ABI that computes: all that the compiler knows of
    it.
  }];
  let methods = [
    StaticInterfaceMethod<[{
      Attaches LibraryCallOpInterface to the nn ops that become this call.
    }],
    "void", "attachLibraryCalls", (ins "::mlir::MLIRContext &":$context)>,
    InterfaceMethod<[{
      The function of the ABI: by default the op's name behind `shx_`.
    }],
    "::std::string", "getCallee", (ins), "",
    [{ return ("shx_" + $_op->getName().stripDialect()).str(); }]>,
    InterfaceMethod<"What the function takes behind the context, in order.",
    "::llvm::SmallVector<::shardonnx::exec::CallArgument>",
    "getCallArguments", (ins)>,
    InterfaceMethod<[{
      The buffer that the result is added to; null where it is written.
    }],
    "::mlir::Value", "getAccumulationTarget", (ins), "",
    "return ::mlir::Value();">,
    InterfaceMethod<[{
      Pairs of an operand that is read and one that is written which may be one
      buffer, since each element is read before it is written.
    }],
    "::llvm::SmallVector<::std::pair<::mlir::Value, ::mlir::Value>>",
    "getInPlacePairs", (ins), "", "return {};">,
    InterfaceMethod<[{
      FLOPs of matrix products and attention as they are executed (causal
      discounted, recomputation counted).
    }],
    "double", "getExecutedFlops", (ins), "", "return 0;">,
    InterfaceMethod<[{
      Bytes that the call moves: by default each operand once.
    }],
    "::shardonnx::exec::Traffic", "getTraffic", (ins), "",
    "return ::shardonnx::exec::operandTraffic($_op);">,
    InterfaceMethod<[{
      Bytes that each thread of the CPU's pool keeps for the call.
    }],
    "int64_t", "getScratchBytes",
    (ins "const ::shardonnx::LibraryModel &":$libraries), "", "return 0;">,
    InterfaceMethod<[{
      What a user of GPUs should know of the call, or nothing.
    }],
    "::std::string", "getCudaRemark", (ins), "", "return {};">
  ];
}

def WorkspaceOpInterface : OpInterface<"WorkspaceOpInterface"> {
  let cppNamespace = "::shardonnx::exec";
  let description = [{
    A call with memory of its own for the time that it runs: its optional
    operand `workspace`.
  }];
  let methods = [
    InterfaceMethod<"How large a workspace the call needs on a device.",
    "int64_t", "getWorkspaceBytes",
    (ins "const ::shardonnx::LibraryModel &":$libraries)>,
    InterfaceMethod<"", "::mlir::MutableOperandRange", "getWorkspaceMutable",
    (ins), "return $_op.getWorkspaceMutable();">
  ];
}

#endif // SHARDONNX_DIALECT_EXEC_INTERFACES
