// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows that a mask selects, as people write mixtures of experts:
//
//   token, slot = torch.where(chosen == i)
//   y[token] += weight[token, slot, None] * expert(x[token])
//
// How many rows there are depends on data, which no compiled step has room for.
// What is computed of each row alone may be computed of every place of the
// mask, and left out where rows are put back: sizes are the mask's then.

#ifndef SHARDONNX_LIB_IMPORT_SELECTEDROWS_H
#define SHARDONNX_LIB_IMPORT_SELECTEDROWS_H

#include "UnselectedPlaces.h"

#include <string>

namespace shardonnx {

/// Writes NonZero of data, and what is computed with it, as nodes whose shapes
/// are known, in a model without functions and control flow. A model in which
/// that cannot be done of all stays as it is; the result is the reason then,
/// else empty.
std::string writeOutSelectedRows(::onnx::ModelProto &model, int opset,
                                 const ValueOrigins &origins);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_SELECTEDROWS_H
