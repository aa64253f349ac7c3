// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions that few models use. A group of its own with a header of its own
// (NNMath.h): passes see these ops through the interfaces, so that a new one
// compiles three files anew.

#ifndef SHARDONNX_DIALECT_NN_MATH_OPS
#define SHARDONNX_DIALECT_NN_MATH_OPS

include "shardonnx/Dialect/NN/IR/NNBase.td"

class NN_MathOp<string mnemonic, string doc>
    : NN_PureOp<mnemonic, [
        DeclareOpInterfaceMethods<ElementwiseOpInterface>,
        DeclareOpInterfaceMethods<InferTypeOpInterface>,
        DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = doc;
  let args = (ins NN_FloatTensor:$operand);
  let results = (outs NN_FloatTensor:$result);
}

// Steps: their gradient is zero everywhere, as PyTorch has it.
def NN_FloorOp : NN_MathOp<"floor", "Largest integer not above x, gradient 0">;
def NN_CeilOp : NN_MathOp<"ceil", "Smallest integer not below x, gradient 0">;
def NN_RoundOp
    : NN_MathOp<"round", "Nearest integer, halves to the even one, gradient 0">;
def NN_SignOp : NN_MathOp<"sign", "-1, 0 or 1, NaN of NaN, gradient 0">;
def NN_StopGradientOp
    : NN_MathOp<"stop_gradient", "x, gradient 0 (torch.Tensor.detach)">;

def NN_Expm1Op : NN_MathOp<"expm1", "e^x - 1, exact near zero">;
def NN_Log1pOp : NN_MathOp<"log1p", "log(1 + x), exact near zero">;
def NN_SoftplusOp
    : NN_MathOp<"softplus", "log(1 + e^x), without overflow; gradient sigmoid(x)">;
def NN_TanOp : NN_MathOp<"tan", "Tangent">;
def NN_AsinOp : NN_MathOp<"asin", "Inverse sine">;
def NN_AcosOp : NN_MathOp<"acos", "Inverse cosine">;
def NN_AtanOp : NN_MathOp<"atan", "Inverse tangent">;
def NN_SinhOp : NN_MathOp<"sinh", "Hyperbolic sine">;
def NN_CoshOp : NN_MathOp<"cosh", "Hyperbolic cosine">;
def NN_AsinhOp : NN_MathOp<"asinh", "Inverse hyperbolic sine">;
def NN_AcoshOp : NN_MathOp<"acosh", "Inverse hyperbolic cosine">;
def NN_AtanhOp : NN_MathOp<"atanh", "Inverse hyperbolic tangent">;

def NN_QuotientOp : NN_PureOp<"quotient", [
    DeclareOpInterfaceMethods<ElementwiseOpInterface>,
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "a/b of integers, rounded towards zero";
  let description = [{
    0 where b is 0; the smallest integer over -1 wraps to itself.
  }];
  let args = (ins NN_IntTensor:$lhs, NN_IntTensor:$rhs);
  let results = (outs NN_IntTensor:$result);
}

def NN_RemainderOp : NN_PureOp<"remainder", [
    DeclareOpInterfaceMethods<ElementwiseOpInterface>,
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "What a/b leaves, with the sign of a (C's % and fmod)";
  let description = [{
    `floor`: with the sign of b (Python's %), of integers alone. An integer
    over 0 leaves 0. ∂/∂a is 1, ∂/∂b is -trunc(a/b) (torch.fmod).
  }];
  let args = (ins NN_Tensor:$lhs, NN_Tensor:$rhs, UnitAttr:$floor);
  let results = (outs NN_Tensor:$result);
}

def NN_LogSumExpOp : NN_PureOp<"log_sum_exp", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "log(Σ e^x) over the last axis, which stays as size 1 (torch.logsumexp)";
  let args = (ins NN_FloatTensor:$operand);
  let results = (outs NN_FloatTensor:$result);
}

def NN_CumSumOp : NN_PureOp<"cumsum", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Sums of an axis up to each element (torch.cumsum)";
  let description = [{
    Element i along `axis` is the sum of the elements up to i, with `reverse` of
    those from i on; with `exclusive` element i itself is left out. Floats are
    summed in f32 at least, integers wrap.
  }];
  let args = (ins NN_Tensor:$operand, I64Attr:$axis, UnitAttr:$exclusive,
                       UnitAttr:$reverse);
  let results = (outs NN_Tensor:$result);
}

#endif // SHARDONNX_DIALECT_NN_MATH_OPS
