// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The calls of IndexABI.h, one op for each.

#ifndef SHARDONNX_DIALECT_EXEC_INDEX_OPS
#define SHARDONNX_DIALECT_EXEC_INDEX_OPS

include "shardonnx/Dialect/Exec/IR/ExecBase.td"

def Exec_GatherElementsOp : Exec_CallOp<"gather_elements",
    ["getCallee"]> {
  let summary = "nn.gather on buffers of any layout";
  let arguments = (ins Exec_Read:$data, Exec_Read:$indices, Exec_Write:$result,
                       DenseI64ArrayAttr:$data_axes,
                       DenseI64ArrayAttr:$index_axes,
                       DenseI64ArrayAttr:$indexed_axes);
  let assemblyFormat = [{
    $data `,` $indices `into` $result attr-dict `:` type($data) `,`
    type($indices) `,` type($result)
  }];
}

def Exec_ScatterOp : Exec_CallOp<"scatter"> {
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
}

def Exec_TopKOp : Exec_CallOp<"top_k", ["getScratchBytes"]> {
  let summary = "nn.top_k on buffers of any layout";
  let arguments = (ins Exec_Read:$operand, Exec_Write:$values,
                       Exec_Write:$indices, I64Attr:$axis, UnitAttr:$smallest,
                       UnitAttr:$last_first);
  let assemblyFormat = [{
    $operand `into` $values `,` $indices attr-dict `:` type($operand) `,`
    type($values) `,` type($indices)
  }];
}

def Exec_GroupRowsOp : Exec_CallOp<"group_rows", ["getScratchBytes"]> {
  let summary = "Rows sorted by the matrix that each chooses";
  let description = [{
    For the grouped products of the same indices, forward and backward: where
    each group begins, and the rows in the order of their groups
    (ShxGroupRows).
  }];
  let arguments = (ins Exec_Read:$indices, Exec_Write:$routes,
                       I64Attr:$groups);
  let assemblyFormat = [{
    $indices `into` $routes attr-dict `:` type($indices) `,` type($routes)
  }];
}

def Exec_GroupedGemmOp : Exec_CallOp<"grouped_gemm",
    ["getExecutedFlops", "getScratchBytes"]> {
  let summary = "nn.grouped_matmul on buffers; rows at one distance";
  let arguments = (ins Exec_Read:$rows, Exec_Read:$matrices, Exec_Read:$routes,
                       Exec_Write:$result, UnitAttr:$transposed);
  let assemblyFormat = [{
    $rows `,` $matrices `,` $routes `into` $result attr-dict `:` type($rows)
    `,` type($matrices) `,` type($routes) `,` type($result)
  }];
}

def Exec_GroupedGemmGradOp : Exec_CallOp<"grouped_gemm_grad",
    ["getExecutedFlops", "getScratchBytes"]> {
  let summary = "nn.grouped_matmul_grad on buffers; rows at one distance";
  let arguments = (ins Exec_Read:$lhs, Exec_Read:$rhs, Exec_Read:$routes,
                       Exec_Write:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs `,` $routes `into` $result attr-dict `:` type($lhs) `,`
    type($rhs) `,` type($routes) `,` type($result)
  }];
}

#endif // SHARDONNX_DIALECT_EXEC_INDEX_OPS
