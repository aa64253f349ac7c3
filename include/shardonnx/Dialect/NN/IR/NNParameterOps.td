// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parameters, constants, and what a step reads and writes beside tensors.

#ifndef SHARDONNX_DIALECT_NN_PARAMETER_OPS
#define SHARDONNX_DIALECT_NN_PARAMETER_OPS

include "shardonnx/Dialect/NN/IR/NNBase.td"

def NN_ExternalAttr : AttrDef<NN_Dialect, "External"> {
  let mnemonic = "external";
  let summary = "Where a parameter's bytes lie";
  let description = [{
    `file` relative to the model's folder; `offset` and `length` in bytes;
    the stored element type; `transposed`: the file holds the transpose of
    the two-dimensional parameter.
  }];
  let parameters = (ins "::mlir::StringAttr":$file, "int64_t":$offset,
                        "int64_t":$length, "::mlir::Type":$elementType,
                        DefaultValuedParameter<"bool", "false">:$transposed);
  let assemblyFormat = "`<` struct(params) `>`";
}

def NN_ParameterOp : NN_PlacedOp<"parameter", [Symbol]> {
  let summary = "A weight of the model: a symbol, never its bytes";
  let description = [{
    `sym_name` is the state-dict name where the exporter tells it, else the
    ONNX name; `onnx_name` is the graph's. Shape and f32 master dtype are the
    type's; `source` says where the initial bytes are, to which `addend` is
    added. A tied parameter has several state-dict `names`, its own among them.
    Where a graph is only run, `argument` is the function's argument that the
    parameter stands for, and `wanted` asks for its gradient (nn-sum-outputs).

        nn.parameter @transformer.wte.weight : tensor<8192x384xf32> trainable
    }];
  let args = (ins SymbolNameAttr:$sym_name, TypeAttr:$type,
                       UnitAttr:$trainable, StrAttr:$onnx_name,
                       OptionalAttr<NN_ExternalAttr>:$source,
                       OptionalAttr<StrArrayAttr>:$names,
                       OptionalAttr<F32Attr>:$addend,
                       OptionalAttr<I64Attr>:$argument, UnitAttr:$wanted);
  let assemblyFormat = [{
    $sym_name `:` $type (`trainable` $trainable^)? attr-dict
  }];
  let hasVerifier = 1;
}

def NN_GetOp : NN_Op<"get", [Pure,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The value of a parameter, in the dtype that the unit computes in";
  let args = (ins FlatSymbolRefAttr:$parameter);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$parameter attr-dict `:` type($result)";
}

def NN_UnpackOp : NN_PureOp<"unpack"> {
  let summary = "A packed weight [rows, columns], decoded";
  let description = [{
    The operand holds the bytes of a frozen weight in words of 32 bits;
    `packing` (runtime/Packing.h) says how: bf16, int8 or nf4.
  }];
  let args = (ins NN_IntTensor:$packed, StrAttr:$packing);
  let results = (outs NN_FloatTensor:$result);
  let hasVerifier = 1;
}

def NN_ConstantOp : NN_Op<"constant", [Pure, ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "A tensor known at compile time";
  let args = (ins ElementsAttr:$value);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$value attr-dict";
  let hasFolder = 1;
}

def NN_IotaOp : NN_PureOp<"iota"> {
  let summary = "The index along one axis";
  let args = (ins I64Attr:$axis);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def NN_RotaryTableOp : NN_PureOp<"rotary_table", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "cos and sin of position × inverse frequency";
  let description = [{
    cos[p, j] = scaling·cos(p·inv_freq[j]) and sin alike, f32 [length, |inv_freq|]
    (Su et al. 2021, RoFormer; transformers' LlamaRotaryEmbedding).
  }];
  let args = (ins DenseF32ArrayAttr:$inv_freq, I64Attr:$length,
                       DefaultValuedAttr<F32Attr, "1.0">:$scaling);
  let results = (outs NN_F32Tensor:$cos, NN_F32Tensor:$sin);
  let assemblyFormat = "attr-dict `:` functional-type(operands, results)";
}

def NN_LossScaleOp : NN_Op<"loss_scale", [Pure]> {
  let summary = "1 / number of labels of the step, over all ranks and microbatches";
  let results = (outs NN_F32Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def NN_LossOp : NN_Op<"loss"> {
  let summary = "Reports the microbatch's loss, a sum that the loss scale turns into a mean";
  let description = [{
    `denominator`: `labels` (of the function argument `denominator_arg` that
    count, the first `shift` of each sample not counted), `elements` (a fixed
    `count` per microbatch), `sum` (none: the sum over the labels of the step is
    the loss) or `batches` (an opaque mean of the graph, count 1).
  }];
  let args = (ins NN_F32Tensor:$sum, StrAttr:$denominator,
                       DefaultValuedAttr<I64Attr, "-1">:$denominator_arg,
                       DefaultValuedAttr<I64Attr, "0">:$shift,
                       DefaultValuedAttr<I64Attr, "1">:$count);
  let assemblyFormat = "$sum attr-dict `:` type($sum)";
  let hasVerifier = 1;
}

def NN_GradOp : NN_Op<"grad", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Hands over the gradient of a trainable parameter for this microbatch";
  let args = (ins FlatSymbolRefAttr:$parameter, NN_FloatTensor:$value);
  let assemblyFormat = "$parameter `,` $value attr-dict `:` type($value)";
}

#endif // SHARDONNX_DIALECT_NN_PARAMETER_OPS
