// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The calls of IndexABI.h, one op for each. A group of its own, included by the
// few files that need it (ExecIndex.h).

#ifndef SHARDONNX_DIALECT_EXEC_INDEX_OPS
#define SHARDONNX_DIALECT_EXEC_INDEX_OPS

include "shardonnx/Dialect/Exec/IR/ExecBase.td"

def Exec_GatherElementsOp : Exec_Op<"gather_elements"> {
  let summary = "nn.gather on buffers of any layout";
  let arguments = (ins Exec_Read:$data, Exec_Read:$indices, Exec_Write:$result,
                       DenseI64ArrayAttr:$data_axes,
                       DenseI64ArrayAttr:$index_axes,
                       DenseI64ArrayAttr:$indexed_axes);
  let assemblyFormat = [{
    $data `,` $indices `into` $result attr-dict `:` type($data) `,`
    type($indices) `,` type($result)
  }];
  let hasVerifier = 1;
}

def Exec_ScatterOp : Exec_Op<"scatter"> {
  let summary = "nn.scatter into what lies in the target already";
  let description = [{
    `reduction` is ShxReduction's number.
  }];
  let arguments = (ins Exec_Read:$indices, Exec_Read:$updates,
                       Arg<AnyMemRef, "", [MemRead, MemWrite]>:$target,
                       I64Attr:$reduction, DenseI64ArrayAttr:$data_axes,
                       DenseI64ArrayAttr:$index_axes,
                       DenseI64ArrayAttr:$indexed_axes);
  let assemblyFormat = [{
    $indices `,` $updates `into` $target attr-dict `:` type($indices) `,`
    type($updates) `,` type($target)
  }];
  let hasVerifier = 1;
}

def Exec_TopKOp : Exec_Op<"top_k"> {
  let summary = "nn.top_k on buffers of any layout";
  let arguments = (ins Exec_Read:$operand, Exec_Write:$values,
                       Exec_Write:$indices, I64Attr:$axis, UnitAttr:$smallest,
                       UnitAttr:$last_first);
  let assemblyFormat = [{
    $operand `into` $values `,` $indices attr-dict `:` type($operand) `,`
    type($values) `,` type($indices)
  }];
  let hasVerifier = 1;
}

def Exec_GroupedGemmOp : Exec_Op<"grouped_gemm"> {
  let summary = "nn.grouped_matmul on buffers; rows at one distance";
  let arguments = (ins Exec_Read:$rows, Exec_Read:$matrices, Exec_Read:$indices,
                       Exec_Write:$result, UnitAttr:$transposed);
  let assemblyFormat = [{
    $rows `,` $matrices `,` $indices `into` $result attr-dict `:` type($rows)
    `,` type($matrices) `,` type($indices) `,` type($result)
  }];
  let hasVerifier = 1;
}

def Exec_GroupedGemmGradOp : Exec_Op<"grouped_gemm_grad"> {
  let summary = "nn.grouped_matmul_grad on buffers; rows at one distance";
  let arguments = (ins Exec_Read:$lhs, Exec_Read:$rhs, Exec_Read:$indices,
                       Exec_Write:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs `,` $indices `into` $result attr-dict `:` type($lhs) `,`
    type($rhs) `,` type($indices) `,` type($result)
  }];
  let hasVerifier = 1;
}

#endif // SHARDONNX_DIALECT_EXEC_INDEX_OPS
