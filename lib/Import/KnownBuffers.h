// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arrays of floats that are no parameters, where no file says which are.

#ifndef SHARDONNX_LIB_IMPORT_KNOWNBUFFERS_H
#define SHARDONNX_LIB_IMPORT_KNOWNBUFFERS_H

#include "Parameters.h"
#include "llvm/ADT/StringSet.h"

namespace shardonnx {

/// Buffers that are known by the last part of their name.
bool isBufferName(llvm::StringRef name);

/// Running statistics of a norm, by the last part of their name.
bool isStatisticName(llvm::StringRef name);

/// Whether its readers are ops to which it is no weight: running statistics,
/// the scales of a resampled image or of quantized weights.
bool isBufferByUse(const ::onnx::GraphProto &graph, llvm::StringRef name);

/// Whether the numbers say so: KnownTables.h. Biases of recurrent layers, whose
/// gates may start as a mask, are none; nor are matrices of layers that start
/// as the identity, where names are those of PyTorch's.
bool isBufferByNumbers(const ::onnx::GraphProto &graph, const Initializer &init,
                       llvm::StringRef modelPath, bool named);

/// Running means and variances of norms that an exporter has written out:
/// (x - mean) / sqrt(variance + epsilon), in any order of factors.
llvm::StringSet<> findStatistics(const ::onnx::GraphProto &graph);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_KNOWNBUFFERS_H
