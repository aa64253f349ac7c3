// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the passes ask of an nn op, so that a new op touches no pass.

#ifndef SHARDONNX_DIALECT_NN_INTERFACES
#define SHARDONNX_DIALECT_NN_INTERFACES

include "mlir/IR/OpBase.td"

def PlacedOpInterface : OpInterface<"PlacedOpInterface"> {
  let cppNamespace = "::shardonnx::nn";
  let description = [{
    An op that has a place in the model and in the step. nn::unitOf and the
    functions beside it read and change single parts of it.
  }];
  let methods = [
    InterfaceMethod<"The place; null for one of forward that has no unit.",
                    "::shardonnx::nn::PlaceAttr", "getPlaceAttr", (ins)>,
    InterfaceMethod<"Moves the op.", "void", "setPlaceAttr",
                    (ins "::shardonnx::nn::PlaceAttr":$place)>
  ];
}

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::shardonnx::nn";
  let description = [{
    Reverse-mode differentiation: the vector-Jacobian product of one op.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the gradients of the operands at the builder's insertion point.
      resultGrads[i] is the cotangent of result i, or null when nothing flows
      into it. For each operand with needed[j], sets operandGrads[j] to a value
      of the operand's shape (or leaves it null: gradient zero). The element
      type of a gradient is that of the operand, but a matmul may emit a
      parameter's gradient in f32 (see `nn.matmul`).
    }],
    "::llvm::LogicalResult", "buildVjp",
    (ins "::mlir::OpBuilder &":$builder,
         "::mlir::ValueRange":$resultGrads,
         "const ::llvm::SmallBitVector &":$needed,
         "::llvm::MutableArrayRef<::mlir::Value>":$operandGrads)>
  ];
}

def ElementwiseOpInterface : OpInterface<"ElementwiseOpInterface"> {
  let cppNamespace = "::shardonnx::nn";
  let description = [{
    An op that maps elements to elements under NumPy broadcasting. The kernel
    generator asks it for its computation on one vector (or scalar).
  }];
  let methods = [
    InterfaceMethod<[{
      The op on values of one vector each: floats come as f32 vectors whatever
      their type in memory, i1 as i1 vectors, integers as they are; the result
      likewise. All vectors have one shape.
    }],
    "::mlir::Value", "emitVector",
    (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$vectors)>
  ];
}

def DecomposableOpInterface : OpInterface<"DecomposableOpInterface"> {
  let cppNamespace = "::shardonnx::nn";
  let description = [{
    A named op (a norm, a softmax, rotary) that equals a few elementwise,
    reduce and shape ops; the fuser takes it apart. Some only where they have a
    part that no kernel computes.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the equivalent ops at the insertion point and returns one value
      for each result, of the same type.
    }],
    "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>>", "decompose",
    (ins "::mlir::OpBuilder &":$builder)>,
    InterfaceMethod<"Whether it must be taken apart.",
    "bool", "isComposite", (ins), /*methodBody=*/"",
    /*defaultImplementation=*/"return true;">
  ];
}

def FlopsOpInterface : OpInterface<"FlopsOpInterface"> {
  let cppNamespace = "::shardonnx::nn";
  let description = [{
    Model FLOPs by PaLM's rule (Chowdhery et al. 2022, appendix B): matrix
    products and attention, causal not discounted.
  }];
  let methods = [
    InterfaceMethod<"FLOPs of one execution.", "int64_t", "getFlops", (ins)>
  ];
}

#endif // SHARDONNX_DIALECT_NN_INTERFACES
