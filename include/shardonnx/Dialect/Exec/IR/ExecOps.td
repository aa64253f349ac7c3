// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The exec dialect: buffers at fixed offsets, kernels, library calls, queues.

#ifndef SHARDONNX_DIALECT_EXEC_OPS
#define SHARDONNX_DIALECT_EXEC_OPS

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
  let useDefaultAttributePrinterParser = 1;
}

class Exec_Op<string mnemonic, list<Trait> traits = []>
    : Op<Exec_Dialect, mnemonic, traits>;

def Exec_Private : I32EnumAttrCase<"private_", 0, "private">;
def Exec_Params : I32EnumAttrCase<"params", 1>;
def Exec_Gradients : I32EnumAttrCase<"gradients", 2>;
def Exec_Input : I32EnumAttrCase<"input", 3>;
def Exec_Scalar : I32EnumAttrCase<"scalar", 4>;
def Exec_Constant : I32EnumAttrCase<"constant", 5>;
def Exec_Space : I32EnumAttr<"Space", "Where a buffer lies",
    [Exec_Private, Exec_Params, Exec_Gradients, Exec_Input, Exec_Scalar,
     Exec_Constant]> {
  let cppNamespace = "::shardonnx::exec";
  let genSpecializedAttr = 0;
}
def Exec_SpaceAttr : EnumAttr<Exec_Dialect, Exec_Space, "space">;

def Exec_BufferOp : Exec_Op<"buffer", [Pure]> {
  let summary = "A planned piece of memory";
  let description = [{
    `offset` in bytes from the base of the space: private: the rank's private
    space; params, gradients: the buffer of the unit `symbol`; input: the graph
    input of index `offset`; scalar: ShxScalar of index `offset`; constant: the
    exec.constant `symbol`. Strides (elements) are the memref type's; the
    type's own offset is 0.

        %0 = exec.buffer private 4096 : memref<4x256x384xf32>
        %1 = exec.buffer params @transformer.h.0 0 : memref<384x1152xf32>
  }];
  let arguments = (ins Exec_SpaceAttr:$space,
                       OptionalAttr<FlatSymbolRefAttr>:$symbol,
                       I64Attr:$offset);
  let results = (outs AnyMemRef:$buffer);
  let assemblyFormat = [{
    $space ($symbol^)? $offset attr-dict `:` type($buffer)
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
    $sym_name $kind $domain $operand_types attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
}

def Exec_LaunchOp : Exec_Op<"launch", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs a kernel on buffers of its operand types";
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<AnyMemRef>:$buffers);
  let assemblyFormat = [{
    $kernel `(` $buffers `)` attr-dict `:` type($buffers)
  }];
}

#endif // SHARDONNX_DIALECT_EXEC_OPS
