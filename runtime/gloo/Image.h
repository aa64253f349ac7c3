// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The shared library of Gloo.h, as it lies inside every training executable.

#ifndef SHARDONNX_RUNTIME_GLOO_IMAGE_H
#define SHARDONNX_RUNTIME_GLOO_IMAGE_H

#include "Gloo.h"

namespace shardonnx::rt {

/// Loads it, once. Throws Error where this machine has no Gloo.
const ShxGlooFunctions &loadGloo();

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_GLOO_IMAGE_H
