// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The `onnx` dialect: an ONNX graph as it was exported. One generic node
// operation, weights as symbols that point into the model's files. Nothing
// here knows what an ONNX operator means; the raise to `nn` does.

#ifndef SHARDONNX_DIALECT_ONNX_IR_ONNXOPS
#define SHARDONNX_DIALECT_ONNX_IR_ONNXOPS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def ONNX_Dialect : Dialect {
  let name = "onnx";
  let cppNamespace = "::shardonnx::onnx";
  let summary = "An ONNX graph as it was exported";
  let description = [{
    A module holds `onnx.initializer` symbols and one `func.func` whose body
    are `onnx.node` operations. Module attributes: `onnx.model` is the path of
    the file that was read, `onnx.opset` the version of the default domain.
    Arguments and results of the function carry their names as `onnx.name`.
  }];
  let useDefaultTypePrinterParser = 1;
}

def ONNX_SequenceType : TypeDef<ONNX_Dialect, "Sequence"> {
  let mnemonic = "seq";
  let summary = "A sequence of tensors";
  let parameters = (ins "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $elementType `>`";
}

def ONNX_Tensor : AnyTypeOf<[AnyRankedTensor, AnyUnrankedTensor]>;
def ONNX_Value
    : AnyTypeOf<[ONNX_Tensor, ONNX_SequenceType, NoneType],
                "tensor, sequence or absent value">;

class ONNX_Op<string mnemonic, list<Trait> traits = []>
    : Op<ONNX_Dialect, mnemonic, traits>;

def ONNX_InitializerOp : ONNX_Op<"initializer", [Symbol]> {
  let summary = "A weight or constant whose bytes lie in one of the model's files";
  let description = [{
    The symbol's name is the parameter's name in the state dict of the
    framework that exported it, where that is known, else the name in the
    graph. `file` is relative to the folder of the model, so it never leads
    out of it; of length 0, the values are zeros that the exporter dropped. `trainable` marks what training may change. `graph_name` is the
    name in the ONNX graph where it differs, `transposed` says that the bytes
    hold the transpose of the state dict's matrix, `addend` what is added to
    them. A tied weight has several `names` in the state dict.

    ```mlir
    onnx.initializer @fc.weight : tensor<4x8xf32> from "m.onnx"[64, 128] {trainable}
    onnx.initializer @axes : tensor<1xi64> = dense<-1> : tensor<1xi64>
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    TypeAttrOf<AnyRankedTensor>:$type,
    OptionalAttr<StrAttr>:$file,
    OptionalAttr<I64Attr>:$offset,
    OptionalAttr<I64Attr>:$length,
    OptionalAttr<ElementsAttr>:$value,
    OptionalAttr<StrAttr>:$graph_name,
    UnitAttr:$trainable,
    UnitAttr:$transposed,
    OptionalAttr<StrArrayAttr>:$names,
    OptionalAttr<F32Attr>:$addend
  );
  let assemblyFormat = [{
    $sym_name `:` $type
    (`from` $file^ `[` $offset `,` $length `]`)?
    (`=` $value^)?
    attr-dict
  }];
  let hasVerifier = 1;
}

def ONNX_GetOp : ONNX_Op<"get", [Pure]> {
  let summary = "The value of an initializer";
  let arguments = (ins FlatSymbolRefAttr:$name);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

def ONNX_NoneOp : ONNX_Op<"none", [Pure]> {
  let summary = "Stands for an optional input that is absent";
  let results = (outs NoneType:$result);
  let assemblyFormat = "attr-dict";
  let builders = [OpBuilder<(ins), [{
    build($_builder, $_state, $_builder.getNoneType());
  }]>];
}

def ONNX_NodeOp : ONNX_Op<"node", [Pure]> {
  let summary = "Any ONNX node";
  let description = [{
    ```mlir
    %0 = onnx.node "Gemm"(%x, %w) {alpha = 1.0 : f32} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    ```
    The attributes of the ONNX node keep their names and become MLIR
    attributes: integers `i64`, floats `f32`, strings, tensors `dense`, lists
    `array<i64>`, `array<f32>` or an array of strings. `scope` is the module
    that the node was written in, where the exporter tells it.
  }];
  let arguments = (ins
    StrAttr:$op_type,
    Variadic<ONNX_Value>:$inputs,
    OptionalAttr<StrAttr>:$domain,
    DefaultValuedAttr<DictionaryAttr, "{}">:$attrs,
    OptionalAttr<StrAttr>:$scope
  );
  let results = (outs Variadic<ONNX_Value>:$results);
  let assemblyFormat = [{
    $op_type (`in` $domain^)? `(` $inputs `)`
    custom<NodeAttributes>($attrs) (`scope` $scope^)?
    attr-dict-with-keyword `:` functional-type($inputs, $results)
  }];
  let extraClassDeclaration = [{
    /// The ONNX attribute `name`, or null.
    ::mlir::Attribute getNodeAttr(::llvm::StringRef name) {
      return getAttrs().get(name);
    }
    int64_t getInt(::llvm::StringRef name, int64_t byDefault);
    double getFloat(::llvm::StringRef name, double byDefault);
    ::llvm::StringRef getString(::llvm::StringRef name,
                                ::llvm::StringRef byDefault);
    /// The list of integers `name`; false when it is absent.
    bool getInts(::llvm::StringRef name,
                 ::llvm::SmallVectorImpl<int64_t> &values);
    /// Input `index`, or null when it is absent or left out at the end.
    ::mlir::Value getInput(unsigned index);
  }];
  let hasVerifier = 1;
}

#endif // SHARDONNX_DIALECT_ONNX_IR_ONNXOPS
