// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A group of ops that becomes one generated kernel.

#ifndef SHARDONNX_DIALECT_NN_FUSED_OPS
#define SHARDONNX_DIALECT_NN_FUSED_OPS

include "mlir/Interfaces/ControlFlowInterfaces.td"
include "shardonnx/Dialect/NN/IR/NNBase.td"

def NN_FusedRows : I32EnumAttrCase<"rows", 0>;
def NN_FusedColumns : I32EnumAttrCase<"columns", 1>;
def NN_FusedKind : I32EnumAttr<"FusedKind", "Shape of a generated kernel",
    [NN_FusedRows, NN_FusedColumns]> {
  let cppNamespace = "::shardonnx::nn";
  let genSpecializedAttr = 0;
}
def NN_FusedKindAttr : EnumAttr<NN_Dialect, NN_FusedKind, "kind">;

def NN_FusedOp : NN_Op<"fused", [Pure, IsolatedFromAbove,
    SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "Ops over one iteration space, computed together, nothing stored between them";
  let description = [{
    `rows`: the iteration space is `domain`; its last axis is the row (the
    vector axis), all others are parallel. The body holds elementwise ops,
    reductions over the last axis with keepdims, broadcasts, iota and
    constants; every value's shape broadcasts to the domain by NumPy's rule.
    `columns`: elementwise ops over `domain` whose results are reduce_sums
    over all but the last axis.

    An operand may be a transpose, slice or broadcast of another tensor, and a
    result a part of a concat: the memory planner turns these into strides.
  }];
  let args = (ins Variadic<NN_Tensor>:$inputs, NN_FusedKindAttr:$kind,
                       DenseI64ArrayAttr:$domain);
  let results = (outs Variadic<NN_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def NN_YieldOp : Op<NN_Dialect, "yield", [Pure, Terminator, ReturnLike]> {
  let summary = "The results of a fused group (or of the exec.kernel made of it)";
  let arguments = (ins Variadic<NN_Tensor>:$results);
  let builders = [OpBuilder<(ins), [{}]>];
  let assemblyFormat = "attr-dict ($results^ `:` type($results))?";
}

#endif // SHARDONNX_DIALECT_NN_FUSED_OPS
