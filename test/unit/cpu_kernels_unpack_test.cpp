// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packed weights decoded on the pool.

#include "shardonnx/runtime/Cpu.h"
#include "unpack_problem.h"

using namespace shardonnx;
using namespace shardonnx::rt;
using namespace shardonnx::test;

namespace {

TEST(CpuUnpack, EveryPackingAndType) {
  std::mt19937 random(5);
  for (int i = 0; i < 90 && !HasFatalFailure(); ++i) {
    UnpackProblem p(random, allValues<Packing>()[size_t(i % 3)],
                    int32_t(i / 3 % 3));
    Buffer to(p.d.dtype, p.elements());
    setPoolThreads(1 + int(random() % 4));
    shx_unpack(nullptr, &p.d, p.packed.data(), to.data());
    EXPECT_TRUE(to.guardsIntact());
    p.expectDecoded(to);
  }
}

} // namespace
