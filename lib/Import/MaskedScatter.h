// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of a tensor that take, one after the other, the places that a mask
// selects, as models of pictures and words put the ones among the others:
//
//   embeds.masked_scatter((ids == picture)[..., None].expand_as(embeds), found)
//   embeds[ids == picture] = found
//
// How many places there are depends on data, but not what may come to each: the
// row whose number is that of the selected places before it.

#ifndef SHARDONNX_LIB_IMPORT_MASKEDSCATTER_H
#define SHARDONNX_LIB_IMPORT_MASKEDSCATTER_H

namespace onnx {
class ModelProto;
}

namespace shardonnx {

/// Writes ScatterND at what NonZero of a mask gives, of updates as many as that
/// of a tensor of known shape, by CumSum, Gather and Where; in a model without
/// functions and control flow. Where PyTorch would raise an error, because
/// there are too few rows (or, in an assignment, too many), the result is not a
/// number.
void writeOutMaskedScatters(::onnx::ModelProto &model, int opset);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_MASKEDSCATTER_H
