// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the widest instruction set that the CPU at hand has.

#include "Kernels.h"
#include <cstdio>
#include <cstdlib>

namespace shardonnx::rt {

static const Kernels *overriding = nullptr;

void overrideKernels(const Kernels *table) { overriding = table; }

bool hasV4() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

static const Kernels &choose() {
  if (hasV4())
    return v4::kernelTable;
  // f16c has no name of its own here; every CPU with AVX2 has it.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2"))
    return v3::kernelTable;
  std::fputs("shardonnx: error: this CPU lacks AVX2 and FMA, which the runtime "
             "needs; run on an x86-64-v3 machine\n",
             stderr);
  std::exit(1);
}

const Kernels &kernels() {
  static const Kernels &table = choose();
  return overriding ? *overriding : table;
}

} // namespace shardonnx::rt
