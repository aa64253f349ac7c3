// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// torch.bincount(x, minlength=N), which exporters write as a sum of ones into
// max(N, largest of x + 1) zeros.

#ifndef SHARDONNX_LIB_IMPORT_COUNTS_H
#define SHARDONNX_LIB_IMPORT_COUNTS_H

namespace onnx {
class GraphProto;
}

namespace shardonnx {

/// Gives each such sum its N zeros, in a program for any data: where x has N or
/// more, for which PyTorch would count further, the program ends, as for every
/// index out of range; and where x is negative, which PyTorch refuses and a
/// scatter would count from the end.
void fixNumbersOfCounts(::onnx::GraphProto &graph, int opset);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_COUNTS_H
