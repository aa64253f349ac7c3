// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise ops: NumPy broadcasting, f32 inside.

#ifndef SHARDONNX_DIALECT_NN_ELEMENTWISE_OPS
#define SHARDONNX_DIALECT_NN_ELEMENTWISE_OPS

include "shardonnx/Dialect/NN/IR/NNBase.td"

class NN_Elementwise<string mnemonic, list<Trait> traits = []>
    : NN_PureOp<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<ElementwiseOpInterface>,
        DeclareOpInterfaceMethods<InferTypeOpInterface>], traits)>;

class NN_UnaryOp<string mnemonic, string doc>
    : NN_Elementwise<mnemonic, [
        DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = doc;
  let args = (ins NN_FloatTensor:$operand);
  let results = (outs NN_FloatTensor:$result);
}

def NN_NegOp : NN_UnaryOp<"neg", "-x">;
def NN_ExpOp : NN_UnaryOp<"exp", "e^x">;
def NN_LogOp : NN_UnaryOp<"log", "Natural logarithm">;
def NN_SqrtOp : NN_UnaryOp<"sqrt", "Square root">;
def NN_RsqrtOp : NN_UnaryOp<"rsqrt", "1/sqrt(x)">;
def NN_ReciprocalOp : NN_UnaryOp<"reciprocal", "1/x">;
def NN_TanhOp : NN_UnaryOp<"tanh", "Hyperbolic tangent">;
def NN_ErfOp : NN_UnaryOp<"erf", "Error function">;
def NN_SigmoidOp : NN_UnaryOp<"sigmoid", "1/(1 + e^-x)">;
def NN_ReluOp : NN_UnaryOp<"relu", "max(x, 0), gradient 0 at 0 as PyTorch's">;
def NN_AbsOp : NN_UnaryOp<"abs", "|x|, gradient 0 at 0 as PyTorch's">;
def NN_SinOp : NN_UnaryOp<"sin", "Sine">;
def NN_CosOp : NN_UnaryOp<"cos", "Cosine">;
def NN_SiluOp : NN_UnaryOp<"silu", "x·sigmoid(x) (torch.nn.SiLU)">;

def NN_GeluOp : NN_UnaryOp<"gelu", "Gaussian error linear unit (torch.nn.GELU)"> {
  let description = [{
    `tanh`: 0.5·x·(1 + tanh(sqrt(2/π)·(x + 0.044715·x³))); else
    0.5·x·(1 + erf(x/sqrt(2))).
  }];
  let args = (ins NN_FloatTensor:$operand, UnitAttr:$tanh);
}

def NN_CastOp : NN_Op<"cast", [Pure,
    DeclareOpInterfaceMethods<ElementwiseOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Conversion to the result's element type, round to nearest even";
  let args = (ins NN_Tensor:$operand);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

class NN_BinaryOp<string mnemonic, string doc, list<Trait> traits = []>
    : NN_Elementwise<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<DifferentiableOpInterface>], traits)> {
  let summary = doc;
  let args = (ins NN_Tensor:$lhs, NN_Tensor:$rhs);
  let results = (outs NN_Tensor:$result);
}

let hasFolder = 1 in {
def NN_AddOp : NN_BinaryOp<"add", "a + b", [Commutative]>;
def NN_SubOp : NN_BinaryOp<"sub", "a - b">;
def NN_MulOp : NN_BinaryOp<"mul", "a·b", [Commutative]>;
def NN_DivOp : NN_BinaryOp<"div", "a/b, of floats">;
}
def NN_PowOp : NN_BinaryOp<"pow", "a^b, of floats"> {
  let hasCanonicalizeMethod = 1;
}
def NN_MaxOp : NN_BinaryOp<"max", "Larger of two; at a tie each gets half the gradient">;
def NN_MinOp : NN_BinaryOp<"min", "Smaller of two; at a tie each gets half the gradient">;

def NN_CompareEQ : I32EnumAttrCase<"eq", 0>;
def NN_CompareNE : I32EnumAttrCase<"ne", 1>;
def NN_CompareLT : I32EnumAttrCase<"lt", 2>;
def NN_CompareLE : I32EnumAttrCase<"le", 3>;
def NN_CompareGT : I32EnumAttrCase<"gt", 4>;
def NN_CompareGE : I32EnumAttrCase<"ge", 5>;
def NN_ComparePredicate : I32EnumAttr<"ComparePredicate", "Comparison",
    [NN_CompareEQ, NN_CompareNE, NN_CompareLT, NN_CompareLE, NN_CompareGT,
     NN_CompareGE]> {
  let cppNamespace = "::shardonnx::nn";
  let genSpecializedAttr = 0;
}
def NN_ComparePredicateAttr
    : EnumAttr<NN_Dialect, NN_ComparePredicate, "predicate">;

def NN_CompareOp : NN_Elementwise<"compare"> {
  let summary = "Comparison of two tensors of one element type";
  let args = (ins NN_ComparePredicateAttr:$predicate, NN_Tensor:$lhs,
                       NN_Tensor:$rhs);
  let results = (outs NN_BoolTensor:$result);
  let assemblyFormat = [{
    `` $predicate operands attr-dict `:` functional-type(operands, results)
  }];
}

class NN_LogicOp<string mnemonic, string doc>
    : NN_Elementwise<mnemonic, [Commutative]> {
  let summary = doc;
  let args = (ins NN_BitsTensor:$lhs, NN_BitsTensor:$rhs);
  let results = (outs NN_BitsTensor:$result);
}
def NN_AndOp : NN_LogicOp<"and", "Logical and, of integers bit by bit">;
def NN_OrOp : NN_LogicOp<"or", "Logical or, of integers bit by bit">;

def NN_SelectOp : NN_Elementwise<"select", [
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "condition ? a : b";
  let args = (ins NN_BoolTensor:$condition, NN_Tensor:$trueValue,
                       NN_Tensor:$falseValue);
  let results = (outs NN_Tensor:$result);
}

#endif // SHARDONNX_DIALECT_NN_ELEMENTWISE_OPS
