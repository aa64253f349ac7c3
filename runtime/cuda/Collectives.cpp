// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which collectives a run has.

#include "../core/Error.h"
#include "Engine.h"
#include "SingleRank.h"

namespace shardonnx::rt::cuda {

std::unique_ptr<Collectives> makeCollectives(Context &context,
                                             const EngineSetup &setup) {
  if (setup.info.worldSize > 1)
    fail("this runtime was built without NCCL: start one rank");
  return std::make_unique<SingleRank>(context);
}

} // namespace shardonnx::rt::cuda
