// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a training executable for GPUs runs.

#include "../core/Program.h"
#include "Engine.h"
#include "shardonnx/runtime/Run.h"

int shx_run(int argc, char **argv) {
  shardonnx::rt::cuda::CudaPlatform platform(
      {shx_device_images, shx_device_image_count, shx_constants,
       shx_constants_size});
  return shardonnx::rt::run(platform,
                            {{shx_manifest, shx_manifest_size},
                             shx_first_microbatch,
                             shx_next_microbatch,
                             shx_update,
                             shx_eval_microbatch},
                            argc, argv);
}
