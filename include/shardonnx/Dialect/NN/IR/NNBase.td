// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The nn dialect, its types and the classes that every op family derives from.

#ifndef SHARDONNX_DIALECT_NN_BASE
#define SHARDONNX_DIALECT_NN_BASE

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "shardonnx/Dialect/NN/IR/NNInterfaces.td"
include "shardonnx/Dialect/NN/Interpreter/InterpretableOpInterface.td"

def NN_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::shardonnx::nn";
  let summary = "Differentiable tensor ops with static shapes";
  let description = [{
    What a transformer computes, without devices, ranks or buffers. Elementwise
    ops broadcast as NumPy does. Ops that compute in a lower precision in
    memory do so in f32 inside one kernel.

    Ops and parameters may carry their `place` (`#nn.place`): the module that
    they were written in, the FSDP unit that they belong to, and when in the
    step they run.
  }];
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let useDefaultAttributePrinterParser = 1;
}

// Programs compute with f16, bf16, f32, i1, i32 and i64 (nn-demote-f64 takes f64
// to f32, the raise refuses others); the interpreter with all that ONNX's
// constants are of.
defvar NN_Floats = [F16, BF16, F32, F64];
// What products multiply alone; nothing else computes with them.
defvar NN_Floats8 = [F8E4M3FN, F8E5M2];
defvar NN_Integers = [I32, I64, I8, I16, UI8, UI16, UI32, UI64];

class NN_TensorOf<list<Type> elements, string what>
    : Type<StaticShapeTensorOf<elements>.predicate,
           "statically shaped tensor of " # what,
           StaticShapeTensorOf<elements>.cppType>;

def NN_Tensor
    : NN_TensorOf<!listconcat(NN_Floats, NN_Floats8, [I1], NN_Integers),
                  "floats, integers or booleans">;
def NN_FloatTensor : NN_TensorOf<NN_Floats, "floats">;
def NN_F8Tensor : NN_TensorOf<NN_Floats8, "floats of 8 bits">;
def NN_F32Tensor : StaticShapeTensorOf<[F32]>;
def NN_IntTensor : NN_TensorOf<NN_Integers, "integers">;
def NN_BoolTensor : StaticShapeTensorOf<[I1]>;
def NN_BitsTensor : NN_TensorOf<!listconcat([I1], NN_Integers),
                                "booleans or integers">;

def NN_PlaceAttr : AttrDef<NN_Dialect, "Place"> {
  let mnemonic = "place";
  let summary = "Where in the model and in the step an op stands";
  let description = [{
    - a string: the module that the op was written in, as the exporter names
      it, until nn-assign-units has found the unit;
    - a symbol: the FSDP unit;
    - `backward`: nn-differentiate made the op, and a gradient flows through
      it; `recompute`: a pass has cloned it to compute a value of forward again
      for backward. Else the op is of forward.

    `#nn.place<"transformer.h.0.mlp">`, `#nn.place<@h.0, backward>`
  }];
  let parameters = (ins OptionalParameter<"::mlir::StringAttr">:$scope,
                        OptionalParameter<"::mlir::FlatSymbolRefAttr">:$unit,
                        "::shardonnx::nn::Phase":$phase);
  let hasCustomAssemblyFormat = 1;
  // Every op may have it, and builders take it last or not at all, for which
  // the type that they take must differ from the stored one.
  let isOptional = 1;
  let defaultValue = "::std::nullopt";
  let returnType = "::std::optional<::shardonnx::nn::PlaceAttr>";
  let constBuilderCall = returnType # "($0).value_or(nullptr)";
  let convertFromStorage = "$_self";
}

// An op that has a place: its own operands and attributes are `args`, the place
// comes behind them.
class NN_PlacedOp<string mnemonic, list<Trait> traits = []>
    : Op<NN_Dialect, mnemonic, !listconcat([PlacedOpInterface], traits)> {
  dag args = (ins);
  let arguments = !con(args, (ins NN_PlaceAttr:$place));
}

// Every op that computes or stores something has its reference evaluation.
class NN_Op<string mnemonic, list<Trait> traits = []>
    : NN_PlacedOp<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<InterpretableOpInterface>], traits)>;

// An op whose result types follow from its operands and attributes: the shape
// rule is inferReturnTypes, and the verifier compares with it.
class NN_PureOp<string mnemonic, list<Trait> traits = []>
    : NN_Op<mnemonic, !listconcat([Pure], traits)> {
  let assemblyFormat = [{
    operands attr-dict `:` functional-type(operands, results)
  }];
}

// Of attention and ring attention.
defvar NN_AttentionFormat = [{
  $query `,` $key `,` $value (`,` $mask^)? (`sink` `(` $sink^ `)`)? attr-dict
  `:` functional-type(operands, results)
}];

#endif // SHARDONNX_DIALECT_NN_BASE
