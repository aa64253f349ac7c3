// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whatever a run writes takes the place of what lies there. That is never what
// the same run reads, nor another of its own files.

#ifndef SHARDONNX_RUNTIME_OUTPUTFILES_H
#define SHARDONNX_RUNTIME_OUTPUTFILES_H

#include "../core/Options.h"
#include "shardonnx/runtime/Manifest.h"

namespace shardonnx::rt {

/// An Error of the command line where --log, --trace or --flight-record name a
/// file of the data, of the weights, the program or one another.
void checkOutputFiles(const Options &options, const Manifest &manifest);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_OUTPUTFILES_H
