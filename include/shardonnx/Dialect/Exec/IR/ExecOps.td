// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The exec dialect: buffers at fixed offsets and kernels. Library calls and
// collectives have their own files.

#ifndef SHARDONNX_DIALECT_EXEC_OPS
#define SHARDONNX_DIALECT_EXEC_OPS

include "shardonnx/Dialect/Exec/IR/ExecBase.td"
include "shardonnx/Dialect/Exec/IR/ExecCallOps.td"
include "shardonnx/Dialect/Exec/IR/ExecCollectiveOps.td"
include "shardonnx/Dialect/Exec/IR/ExecConvolutionOps.td"
include "shardonnx/Dialect/Exec/IR/ExecHostOps.td"
include "shardonnx/Dialect/Exec/IR/ExecIndexOps.td"

def Exec_Private : I32EnumAttrCase<"private_", 0, "private">;
def Exec_Params : I32EnumAttrCase<"params", 1>;
def Exec_Gradients : I32EnumAttrCase<"gradients", 2>;
def Exec_Input : I32EnumAttrCase<"input", 3>;
def Exec_Scalar : I32EnumAttrCase<"scalar", 4>;
def Exec_Constant : I32EnumAttrCase<"constant", 5>;
def Exec_Host : I32EnumAttrCase<"host", 6>;
def Exec_Space : I32EnumAttr<"Space", "Where a buffer lies",
    [Exec_Private, Exec_Params, Exec_Gradients, Exec_Input, Exec_Scalar,
     Exec_Constant, Exec_Host]> {
  let cppNamespace = "::shardonnx::exec";
}

def Exec_BufferOp : Exec_Op<"buffer"> {
  let summary = "A planned piece of memory";
  let description = [{
    `offset` in bytes from the base of the space: private: the rank's private
    space; params, gradients: the buffer of the unit `symbol`; input: the graph
    input of index `offset`; scalar: ShxScalar of index `offset`; constant: the
    exec.constant `symbol`; host: the rank's pinned host memory, which only
    copies reach. Strides (elements) are the memref type's; the type's own
    offset is 0. A private or host buffer lives from the first to the last op
    that uses it or a view of it.

        %0 = exec.buffer private 4096 : memref<4x256x384xf32>
        %1 = exec.buffer params @transformer.h.0 0 : memref<384x1152xf32>
  }];
  let arguments = (ins Exec_Space:$space,
                       OptionalAttr<FlatSymbolRefAttr>:$symbol,
                       I64Attr:$offset);
  let results = (outs Res<AnyMemRef, "", [MemAlloc]>:$buffer);
  let assemblyFormat = [{
    $space ($symbol^)? $offset attr-dict `:` type($buffer)
  }];
  let hasVerifier = 1;
}

def Exec_AllocOp : Exec_Op<"alloc"> {
  let summary = "A piece of private or host memory that is not yet placed";
  let description = [{
    What `exec-plan-memory` replaces by an exec.buffer. It lives from the first
    to the last op that uses it or a view of it.
  }];
  let arguments = (ins UnitAttr:$host);
  let results = (outs Res<AnyMemRef, "", [MemAlloc]>:$buffer);
  let assemblyFormat = "(`host` $host^)? attr-dict `:` type($buffer)";
}

def Exec_ViewOp : Exec_Op<"view", [Pure]> {
  let summary = "The same memory under another shape, from `offset` elements on";
  let description = [{
    Strides are the result type's; every element lies inside the source.

        %1 = exec.view %0[384] : memref<4x256x1152xf32>
            to memref<4x256x384xf32, strided<[294912, 1152, 1]>>
  }];
  let arguments = (ins AnyMemRef:$source,
                       DefaultValuedAttr<I64Attr, "0">:$offset);
  let results = (outs AnyMemRef:$result);
  let assemblyFormat = [{
    $source `[` $offset `]` attr-dict `:` type($source) `to` type($result)
  }];
  let hasVerifier = 1;
}

def Exec_SpacePlanOp : Exec_Op<"space"> {
  let summary = "How much memory a space needs, and the least that any plan could need";
  let description = [{
    `lower_bound`: the largest sum of sizes that live at one time.

        exec.space params bytes 4096 lower_bound 4096
  }];
  let arguments = (ins Exec_Space:$space, I64Attr:$bytes,
                       I64Attr:$lower_bound);
  let assemblyFormat = [{
    $space `bytes` $bytes `lower_bound` $lower_bound attr-dict
  }];
}

def Exec_InputOp : Exec_Op<"input"> {
  let summary = "A graph input: what the runtime must put into ShxContext::inputs[index]";
  let description = [{
    `kind` as in docs/manifest.md; ids lie in [0, limit) where limit is not 0,
    labels may be `ignore_index` too.

        exec.input 0 "input_ids" "tokens" limit 8192 : tensor<4x256xi64>
  }];
  let arguments = (ins I64Attr:$index, StrAttr:$name, StrAttr:$kind,
                       I64Attr:$limit, TypeAttr:$type,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let assemblyFormat = [{
    $index $name $kind `limit` $limit attr-dict `:` $type
  }];
}

def Exec_ConstantOp : Exec_Op<"constant", [Symbol]> {
  let summary = "Read-only bytes of the program";
  let arguments = (ins SymbolNameAttr:$sym_name, ElementsAttr:$value);
  let assemblyFormat = "$sym_name attr-dict `=` $value";
}

// nn.fused's kind; named here by its C++ class, since a .td that includes another
// dialect's ops would define them again.
def Exec_KindAttr : Attr<
    CPred<"::llvm::isa<::shardonnx::nn::FusedKindAttr>($_self)">,
    "kind of nn.fused"> {
  let storageType = "::shardonnx::nn::FusedKindAttr";
  let returnType = "::shardonnx::nn::FusedKind";
  let convertFromStorage = "$_self.getValue()";
}

def Exec_KernelOp : Exec_Op<"kernel", [Symbol, IsolatedFromAbove]> {
  let summary = "A generated kernel: the body of an nn.fused on buffers of given layouts";
  let description = [{
    `operand_types` are the memref types (with strides) of the inputs, then of
    the outputs; the body is the nn.fused one, its block arguments the inputs
    as tensors, its nn.yield the outputs. Kind and domain are nn.fused's. A
    launch passes the buffers' addresses in the same order.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Exec_KindAttr:$kind,
                       DenseI64ArrayAttr:$domain,
                       TypeArrayAttr:$operand_types);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name $kind $domain $operand_types
    attr-dict-with-keyword $body
  }];
  let extraClassDeclaration = [{
    unsigned getNumInputs() { return getBody().getNumArguments(); }
    mlir::MemRefType getOperandType(unsigned index) {
      return llvm::cast<mlir::MemRefType>(
          llvm::cast<mlir::TypeAttr>(getOperandTypes()[index]).getValue());
    }
  }];
  let hasVerifier = 1;
}

#endif // SHARDONNX_DIALECT_EXEC_OPS
