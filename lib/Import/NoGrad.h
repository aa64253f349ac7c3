// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a module computes under torch.no_grad().

#ifndef SHARDONNX_LIB_IMPORT_NOGRAD_H
#define SHARDONNX_LIB_IMPORT_NOGRAD_H

#include "Parameters.h"

namespace onnx {
class GraphProto;
}

namespace shardonnx {

struct ImportOptions;

/// The name of the traced region that a node of the framework's program was
/// written in, by the stack trace of the node; empty where it is the program
/// itself. torch.export makes a function of what stands under torch.no_grad()
/// or torch.autocast(), and traces that: its code has no file.
llvm::StringRef regionOf(llvm::StringRef stackTrace);

/// Whether a trace inside of a region is of torch.autocast() for sure: its
/// function may call its arguments `arg0_1`; that under torch.no_grad() calls
/// them what they are outside.
bool isAutocast(llvm::StringRef stackTrace);

/// Freezes tables of sines that are read under torch.no_grad() alone, where
/// torch.autocast() would have nothing to do.
void freezeStoppedWaves(const ::onnx::GraphProto &graph,
                        const Metadata &metadata, llvm::StringRef model,
                        ModelInitializers &taken);

/// Stops gradients where results of torch.no_grad() leave it. Where the file
/// does not tell it from torch.autocast(), and it matters, no executable is
/// made of a guess.
llvm::LogicalResult stopGradients(::onnx::GraphProto &graph, Metadata &metadata,
                                  llvm::ArrayRef<Initializer> initializers,
                                  const ImportOptions &options,
                                  Diagnostics &diagnostics);

/// Warns where the exporter's optimizer has made one value of two that depend
/// on what trains, and that nothing tells apart: had one of them been computed
/// of what is detached, gradients would flow that should not. To be called
/// where merged calls are separated.
void warnOfMergedValues(const ::onnx::GraphProto &graph,
                        const Metadata &metadata,
                        llvm::ArrayRef<Initializer> initializers,
                        llvm::StringRef model, Diagnostics &diagnostics);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_NOGRAD_H
