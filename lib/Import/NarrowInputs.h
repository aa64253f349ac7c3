// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inputs of 8 and 16 bits, such as pictures of bytes, that a graph does nothing
// with but cast: programs take them as the integers that they compute with, and
// data of any integers fits these.

#ifndef SHARDONNX_LIB_IMPORT_NARROWINPUTS_H
#define SHARDONNX_LIB_IMPORT_NARROWINPUTS_H

namespace onnx {
class GraphProto;
}

namespace shardonnx {

/// Before initializers become inputs: makes INT32 of graph inputs of (U)INT8
/// and (U)INT16, and INT64 of UINT32, where every reader is a Cast or hands the
/// elements on to one. Others stay, and are refused where they are read.
void widenNarrowInputs(::onnx::GraphProto &graph);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_NARROWINPUTS_H
