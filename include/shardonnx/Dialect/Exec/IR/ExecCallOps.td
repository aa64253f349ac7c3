// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches and library calls: one op for each call of ABI.h that computes.
// Sizes and strides are those of the memref types.

#ifndef SHARDONNX_DIALECT_EXEC_CALL_OPS
#define SHARDONNX_DIALECT_EXEC_CALL_OPS

include "shardonnx/Dialect/Exec/IR/ExecBase.td"

def Exec_LaunchOp : Exec_Op<"launch", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs a kernel on buffers of its operand types";
  let description = [{
    Inputs are read, outputs written, passed in this order.

        exec.launch @gelu(%0) into (%1) : (memref<8xf32>) -> memref<8xf32>
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<AnyMemRef>:$inputs,
                       Variadic<AnyMemRef>:$outputs,
                       Optional<AnyMemRef>:$workspace);
  let assemblyFormat = [{
    $kernel `(` $inputs `)` `into` ` ` `(` $outputs `)` (`workspace`
    $workspace^ `:` type($workspace))? attr-dict `:`
    `(` type($inputs) `)` `->` `(` type($outputs) `)`
  }];
}

def Exec_GemmOp : Exec_CallOp<"gemm",
    ["getAccumulationTarget", "getExecutedFlops"], [Exec_HasWorkspace]> {
  let summary = "result = lhs·rhs, summed in f32";
  let description = [{
    lhs [..., m, k], rhs [..., k, n], result [..., m, n]; leading axes of lhs
    and rhs broadcast to the result's. One of the last two strides of lhs and
    of rhs is 1 (a transposed operand is a view with its strides swapped), as
    is the last of the result. `tf32`: f32 operands may be rounded to it.
    `accumulate`, here and in other calls: the result is added to what lies
    there.
  }];
  let arguments = (ins Exec_Read:$lhs, Exec_Read:$rhs, Exec_Write:$result,
                       Optional<AnyMemRef>:$workspace, UnitAttr:$tf32,
                       UnitAttr:$deterministic, UnitAttr:$accumulate);
  let assemblyFormat = [{
    $lhs `,` $rhs `into` $result (`accumulate` $accumulate^)?
    (`workspace` $workspace^ `:` type($workspace))? attr-dict `:` type($lhs) `,` type($rhs) `,`
    type($result)
  }];
}

// nn.matmul_epilogue's epilogue, named by its C++ class as Exec_KindAttr is.
def Exec_EpilogueAttr : Attr<
    CPred<"::llvm::isa<::shardonnx::nn::EpilogueAttr>($_self)">,
    "epilogue of nn.matmul_epilogue"> {
  let storageType = "::shardonnx::nn::EpilogueAttr";
  let returnType = "::shardonnx::nn::Epilogue";
  let convertFromStorage = "$_self.getValue()";
}

def Exec_GemmEpilogueOp : Exec_CallOp<"gemm_epilogue",
    ["getAccumulationTarget", "getExecutedFlops"],
    [Exec_HasWorkspace, AttrSizedOperandSegments]> {
  let summary = "nn.matmul_epilogue on buffers, one call (CUDA)";
  let description = [{
    The product as in exec.gemm, of two axes. `side` is what the epilogue reads,
    `extra` what it writes besides the result; gelu_bias may leave it out.
    Pre-activations are laid out as the result, vectors are contiguous. Only
    the result of a bgrad may `accumulate`; its sums never do.
  }];
  let arguments = (ins Exec_EpilogueAttr:$epilogue, Exec_Read:$lhs,
                       Exec_Read:$rhs,
                       Arg<Optional<AnyMemRef>, "", [MemRead]>:$side,
                       Exec_Write:$result,
                       Arg<Optional<AnyMemRef>, "", [MemWrite]>:$extra,
                       Optional<AnyMemRef>:$workspace, UnitAttr:$tf32,
                       UnitAttr:$deterministic, UnitAttr:$accumulate);
  let assemblyFormat = [{
    $lhs `,` $rhs (`side` $side^ `:` type($side))? `into` $result
    (`accumulate` $accumulate^)? (`extra` $extra^ `:` type($extra))? (`workspace` $workspace^ `:`
    type($workspace))? attr-dict `:` type($lhs) `,` type($rhs) `,`
    type($result)
  }];
}

def Exec_F8CastOp : Exec_CallOp<"f8_cast", [],
    [AttrSizedOperandSegments]> {
  let summary = "nn.f8_cast_matrix on buffers: rows, columns or both (CUDA)";
  let description = [{
    `columns` holds the transpose. All are contiguous along their last axis.
  }];
  let arguments = (ins Exec_Read:$source, Exec_Read:$step,
                       Arg<Optional<AnyMemRef>, "", [MemWrite]>:$rows,
                       Arg<Optional<AnyMemRef>, "", [MemWrite]>:$columns);
  let assemblyFormat = [{
    $source `,` $step `into` (`rows` $rows^ `:` type($rows))?
    (`columns` $columns^ `:` type($columns))? attr-dict `:` type($source) `,`
    type($step)
  }];
}

def Exec_F8GemmOp : Exec_CallOp<"f8_gemm",
    ["getAccumulationTarget", "getExecutedFlops"],
    [Exec_HasWorkspace, AttrSizedOperandSegments]> {
  let summary = "nn.f8_product on buffers, one call (CUDA)";
  let description = [{
    lhs [m, k] and rhs [n, k], contiguous along k; rows and steps begin on
    multiples of 16 bytes. A call that accumulates has no addend.
  }];
  let arguments = (ins Exec_Read:$lhs, Exec_Read:$rhs, Exec_Read:$lhs_step,
                       Exec_Read:$rhs_step,
                       Arg<Optional<AnyMemRef>, "", [MemRead]>:$addend,
                       Exec_Write:$result,
                       Optional<AnyMemRef>:$workspace, UnitAttr:$fast,
                       UnitAttr:$deterministic, UnitAttr:$accumulate);
  let assemblyFormat = [{
    $lhs `,` $rhs `steps` $lhs_step `,` $rhs_step
    (`plus` $addend^ `:` type($addend))? `into` $result
    (`accumulate` $accumulate^)? (`workspace` $workspace^ `:`
    type($workspace))? attr-dict `:` type($lhs) `,` type($rhs) `,`
    type($lhs_step) `,` type($rhs_step) `,` type($result)
  }];
}

def Exec_AttentionOp : Exec_CallOp<"attention",
    ["getExecutedFlops", "getScratchBytes", "getCudaRemark"],
    [Exec_HasWorkspace, AttrSizedOperandSegments]> {
  let summary = "nn.attention on buffers whose head axis is contiguous";
  let arguments = (ins Exec_Read:$query, Exec_Read:$key, Exec_Read:$value,
                       Arg<Optional<AnyMemRef>, "", [MemRead]>:$mask,
                       Exec_Write:$result, Exec_Write:$lse,
                       Optional<AnyMemRef>:$workspace,
                       F32Attr:$scale, UnitAttr:$causal,
                       DefaultValuedAttr<I64Attr, "0">:$window,
                       DefaultValuedAttr<F32Attr, "0.0">:$softcap,
                       UnitAttr:$unguarded,
                       DefaultValuedAttr<F32Attr, "0.0">:$hidden,
                       UnitAttr:$added, UnitAttr:$deterministic,
                       DefaultValuedAttr<I64Attr, "0">:$documents);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`mask` $mask^ `:` type($mask))? `into`
    $result `,` $lse (`workspace` $workspace^ `:` type($workspace))?
    attr-dict `:` type($query) `,` type($key) `,` type($value) `,`
    type($result) `,` type($lse)
  }];
}

def Exec_AttentionGradOp : Exec_CallOp<"attention_grad",
    ["getExecutedFlops", "getScratchBytes", "getCudaRemark"],
    [Exec_HasWorkspace, AttrSizedOperandSegments]> {
  let summary = "nn.attention_grad on buffers whose head axis is contiguous";
  let arguments = (ins Exec_Read:$query, Exec_Read:$key, Exec_Read:$value,
                       Arg<Optional<AnyMemRef>, "", [MemRead]>:$mask,
                       Exec_Read:$result, Exec_Read:$lse,
                       Exec_Read:$result_grad, Exec_Write:$query_grad,
                       Exec_Write:$key_grad, Exec_Write:$value_grad,
                       Optional<AnyMemRef>:$workspace,
                       F32Attr:$scale, UnitAttr:$causal,
                       DefaultValuedAttr<I64Attr, "0">:$window,
                       DefaultValuedAttr<F32Attr, "0.0">:$softcap,
                       DefaultValuedAttr<F32Attr, "0.0">:$hidden,
                       UnitAttr:$added, UnitAttr:$deterministic,
                       DefaultValuedAttr<I64Attr, "0">:$documents);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`mask` $mask^ `:` type($mask))? `,`
    $result `,` $lse `,` $result_grad `into` $query_grad `,` $key_grad `,`
    $value_grad (`workspace` $workspace^ `:` type($workspace))? attr-dict
    `:` type($query) `,` type($key) `,` type($value) `,` type($result) `,`
    type($lse) `,` type($result_grad) `,` type($query_grad) `,`
    type($key_grad) `,` type($value_grad)
  }];
}

def Exec_EmbeddingOp : Exec_CallOp<"embedding", ["getCallee", "getTraffic"]> {
  let summary = "result[i..., :] = table[ids[i...], :]";
  let arguments = (ins Exec_Read:$table, Exec_Read:$ids, Exec_Write:$result,
                       OptionalAttr<StrAttr>:$axis,
                       DefaultValuedAttr<I64Attr, "1">:$parts,
                       DefaultValuedAttr<I64Attr, "0">:$padding);
  let assemblyFormat = [{
    $table `,` $ids `into` $result attr-dict `:` type($table) `,` type($ids)
    `,` type($result)
  }];
}

def Exec_EmbeddingGradOp : Exec_CallOp<"embedding_grad",
    ["getAccumulationTarget", "getCallee"], [Exec_HasWorkspace]> {
  let summary = "The table's gradient: rows added at ids, in order";
  let arguments = (ins Exec_Read:$ids, Exec_Read:$result_grad,
                       Exec_Write:$table_grad,
                       Optional<AnyMemRef>:$workspace, UnitAttr:$accumulate,
                       OptionalAttr<StrAttr>:$axis,
                       DefaultValuedAttr<I64Attr, "1">:$parts,
                       DefaultValuedAttr<I64Attr, "0">:$padding);
  let assemblyFormat = [{
    $ids `,` $result_grad `into` $table_grad (`accumulate` $accumulate^)?
    (`workspace` $workspace^ `:`
    type($workspace))? attr-dict `:` type($ids) `,` type($result_grad) `,`
    type($table_grad)
  }];
}

def Exec_CrossEntropyOp : Exec_CallOp<"cross_entropy",
    ["getInPlacePairs"], [AttrSizedOperandSegments]> {
  let summary = "nn.cross_entropy; with logits_grad, nn.cross_entropy_grad";
  let description = [{
    logits and logits_grad may be one buffer.
  }];
  let arguments = (ins Exec_Read:$logits, Exec_Read:$labels,
                       Arg<Optional<AnyMemRef>, "", [MemRead]>:$seed,
                       Exec_Write:$loss,
                       Arg<Optional<AnyMemRef>, "", [MemWrite]>:$logits_grad,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let assemblyFormat = [{
    $logits `,` $labels (`seed` $seed^ `:` type($seed))? `into` $loss
    (`grad` $logits_grad^ `:` type($logits_grad))? attr-dict `:`
    type($logits) `,` type($labels) `,` type($loss)
  }];
}

def Exec_LinearCrossEntropyOp : Exec_CallOp<"linear_cross_entropy",
    ["getAccumulationTarget", "getCallee", "getExecutedFlops", "getTraffic"],
    [Exec_HasWorkspace, AttrSizedOperandSegments]> {
  let summary = "nn.linear_cross_entropy; with gradients, nn.linear_cross_entropy_grad";
  let arguments = (ins Exec_Read:$operand, Exec_Read:$weight, Exec_Read:$labels,
                       Arg<Optional<AnyMemRef>, "", [MemRead]>:$seed,
                       Exec_Write:$loss,
                       Arg<Optional<AnyMemRef>, "", [MemWrite]>:$operand_grad,
                       Arg<Optional<AnyMemRef>, "", [MemWrite]>:$weight_grad,
                       Optional<AnyMemRef>:$workspace,
                       I64Attr:$chunk_rows, UnitAttr:$transpose_weight,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index,
                       UnitAttr:$tf32, UnitAttr:$deterministic,
                       UnitAttr:$accumulate,
                       OptionalAttr<StrAttr>:$axis,
                       DefaultValuedAttr<I64Attr, "1">:$parts,
                       DefaultValuedAttr<I64Attr, "0">:$padding);
  let assemblyFormat = [{
    $operand `,` $weight `,` $labels (`seed` $seed^ `:` type($seed))? `into`
    $loss (`grad` $operand_grad^ `,` $weight_grad `:` type($operand_grad) `,`
    type($weight_grad))? (`accumulate` $accumulate^)? (`workspace` $workspace^ `:` type($workspace))?
    attr-dict `:` type($operand) `,` type($weight) `,` type($labels) `,`
    type($loss)
  }];
  let extraClassDeclaration = [{
    ShxLinearCrossEntropy getDescriptor();
    /// With chunks of so many rows.
    int64_t getWorkspaceBytes(const LibraryModel &libraries, int64_t chunkRows);
  }];
}

def Exec_CumSumOp : Exec_CallOp<"cumsum", ["getInPlacePairs"]> {
  let summary = "nn.cumsum on buffers of any layout";
  let description = [{
    operand and result may be one buffer.
  }];
  let arguments = (ins Exec_Read:$operand, Exec_Write:$result, I64Attr:$axis,
                       UnitAttr:$exclusive, UnitAttr:$reverse);
  let assemblyFormat = [{
    $operand `into` $result attr-dict `:` type($operand) `,` type($result)
  }];
}

def Exec_CopyOp : Exec_CallOp<"copy", ["getAccumulationTarget"]> {
  let summary = "Elements from one layout (and element type) to another";
  let arguments = (ins Exec_Read:$source, Exec_Write:$target,
                       UnitAttr:$accumulate);
  let assemblyFormat = [{
    $source `into` $target (`accumulate` $accumulate^)? attr-dict `:` type($source) `,` type($target)
  }];
}

def Exec_UnpackOp : Exec_CallOp<"unpack"> {
  let summary = "nn.unpack on contiguous buffers";
  let arguments = (ins Exec_Read:$packed, Exec_Write:$result, StrAttr:$packing);
  let assemblyFormat = [{
    $packed `into` $result $packing attr-dict `:` type($packed) `,` type($result)
  }];
}

def Exec_ZeroOp : Exec_CallOp<"zero"> {
  let summary = "Fills a contiguous buffer with zero";
  let arguments = (ins Exec_Write:$target);
  let assemblyFormat = "$target attr-dict `:` type($target)";
}

def Exec_LossOp : Exec_Op<"loss"> {
  let summary = "Reports the microbatch's loss, a sum not yet scaled";
  let description = [{
    The attributes are nn.loss's: what the sum is divided by.
  }];
  let arguments = (ins Exec_Read:$sum, StrAttr:$denominator,
                       DefaultValuedAttr<I64Attr, "-1">:$denominator_arg,
                       DefaultValuedAttr<I64Attr, "0">:$shift,
                       DefaultValuedAttr<I64Attr, "1">:$count);
  let assemblyFormat = "$sum attr-dict `:` type($sum)";
  let hasVerifier = 1;
}

#endif // SHARDONNX_DIALECT_EXEC_CALL_OPS
