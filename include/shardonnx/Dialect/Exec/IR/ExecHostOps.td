// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies of private buffers to pinned host memory and back, which run beside
// the work on a queue for each direction.

#ifndef SHARDONNX_DIALECT_EXEC_HOST_OPS
#define SHARDONNX_DIALECT_EXEC_HOST_OPS

include "shardonnx/Dialect/Exec/IR/ExecBase.td"

// `copy` numbers the copies of a function: its four ops have the same number.
class Exec_HostCopyOp<string mnemonic, list<Trait> traits = []>
    : Exec_Op<mnemonic, traits>;

def Exec_OffloadStartOp : Exec_HostCopyOp<"offload_start",
    [AllTypesMatch<["buffer", "host"]>]> {
  let summary = "Begins to copy a private buffer to host memory";
  let description = [{
    Behind all that the work has written so far. Until the offload_wait the
    buffer may be read, and not written.
  }];
  let arguments = (ins I64Attr:$copy, Exec_Read:$buffer, Exec_Write:$host);
  let assemblyFormat = "$copy $buffer `into` $host attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Exec_OffloadWaitOp : Exec_HostCopyOp<"offload_wait"> {
  let summary = "The buffer's memory is others' after it";
  let arguments = (ins I64Attr:$copy, Exec_Read:$buffer);
  let assemblyFormat = "$copy $buffer attr-dict `:` type($buffer)";
}

def Exec_ReloadStartOp : Exec_HostCopyOp<"reload_start",
    [AllTypesMatch<["buffer", "host"]>]> {
  let summary = "Begins to copy back what an offload has left in host memory";
  let description = [{
    Into memory that the work has done with by then. Until the reload_wait
    nobody may touch the buffer.
  }];
  let arguments = (ins I64Attr:$copy, Exec_Read:$host, Exec_Write:$buffer);
  let assemblyFormat = "$copy $host `into` $buffer attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Exec_ReloadWaitOp : Exec_HostCopyOp<"reload_wait"> {
  let summary = "The buffer has its contents again after it";
  let arguments = (ins I64Attr:$copy, Exec_Read:$buffer);
  let assemblyFormat = "$copy $buffer attr-dict `:` type($buffer)";
}

#endif // SHARDONNX_DIALECT_EXEC_HOST_OPS
