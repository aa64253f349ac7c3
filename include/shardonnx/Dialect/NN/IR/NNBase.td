// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The nn dialect, its types and the classes that every op family derives from.

#ifndef SHARDONNX_DIALECT_NN_BASE
#define SHARDONNX_DIALECT_NN_BASE

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

    The discardable attribute `nn.unit = @name` on an op or a parameter names
    the FSDP unit it belongs to (`nn-assign-units`).
  }];
  let hasConstantMaterializer = 1;
  let useDefaultAttributePrinterParser = 1;
}

// Programs compute with f16, bf16, f32, i1, i32 and i64 (the raise refuses
// others); the interpreter with all that ONNX's constants are of.
defvar NN_Floats = [F16, BF16, F32, F64];
defvar NN_Integers = [I32, I64, I8, I16, UI8, UI16, UI32, UI64];

class NN_TensorOf<list<Type> elements, string what>
    : Type<StaticShapeTensorOf<elements>.predicate,
           "statically shaped tensor of " # what,
           StaticShapeTensorOf<elements>.cppType>;

def NN_Tensor : NN_TensorOf<!listconcat(NN_Floats, [I1], NN_Integers),
                            "floats, integers or booleans">;
def NN_FloatTensor : NN_TensorOf<NN_Floats, "floats">;
def NN_F32Tensor : StaticShapeTensorOf<[F32]>;
def NN_IntTensor : NN_TensorOf<NN_Integers, "integers">;
def NN_BoolTensor : StaticShapeTensorOf<[I1]>;

// Every op that computes or stores something has its reference evaluation.
class NN_Op<string mnemonic, list<Trait> traits = []>
    : Op<NN_Dialect, mnemonic, !listconcat([
        DeclareOpInterfaceMethods<InterpretableOpInterface>], traits)>;

// An op whose result types follow from its operands and attributes: the shape
// rule is inferReturnTypes, and the verifier compares with it.
class NN_PureOp<string mnemonic, list<Trait> traits = []>
    : NN_Op<mnemonic, !listconcat([Pure], traits)> {
  let assemblyFormat = [{
    operands attr-dict `:` functional-type(operands, results)
  }];
}

#endif // SHARDONNX_DIALECT_NN_BASE
