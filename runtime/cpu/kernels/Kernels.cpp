// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the widest instruction set that the CPU at hand has.

#include "Kernels.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/syscall.h>
#include <unistd.h>

namespace shardonnx::rt {

static const Kernels *overriding = nullptr;

void overrideKernels(const Kernels *table) { overriding = table; }

static bool hasV3() {
  __builtin_cpu_init();
  // f16c has no name of its own here; every CPU with AVX2 has it.
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
}

bool hasV4() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

bool hasBf16() { return hasV4() && __builtin_cpu_supports("avx512bf16"); }

bool hasAmx() {
  if (!hasBf16() || !__builtin_cpu_supports("amx-tile") ||
      !__builtin_cpu_supports("amx-bf16"))
    return false;
  // Linux saves the tiles of those who have asked.
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

namespace {

// From the least to the most able, as SHARDONNX_CPU_ISA names them.
struct Isa {
  const char *name;
  bool (*has)();
  const Kernels *table;
  const AttentionKernels *bf16Attention;
  const ProductKernels *bf16Product;
};
constexpr Isa kIsas[] = {
    {"x86-64-v3", hasV3, &v3::kernelTable, nullptr, nullptr},
    {"x86-64-v4", hasV4, &v4::kernelTable, nullptr, nullptr},
    {"avx512-bf16", hasBf16, &v4::kernelTable, &bf16::attentionKernels,
     &bf16::bf16Product},
    {"amx-bf16", hasAmx, &v4::kernelTable, &bf16::attentionKernels,
     &amx::bf16Product}};

// A name of SHARDONNX_CPU_ISA, or null for the most able.
const char *wantedIsa() {
  const char *wanted = std::getenv("SHARDONNX_CPU_ISA");
  return wanted && *wanted ? wanted : nullptr;
}

// Null where there is none; `refusal` is why.
const Isa *chooseIsa(const char *wanted, const char *&refusal) {
  const Isa *best = nullptr;
  for (const Isa &isa : kIsas) {
    bool has = isa.has();
    if (wanted && !std::strcmp(wanted, isa.name)) {
      refusal = "SHARDONNX_CPU_ISA names instructions that this CPU lacks; "
                "unset it";
      return has ? &isa : nullptr;
    }
    best = has ? &isa : best;
  }
  refusal = wanted ? "SHARDONNX_CPU_ISA is none of x86-64-v3, x86-64-v4, "
                     "avx512-bf16 and amx-bf16; unset it, or give one of them"
                   : "this CPU lacks AVX2 and FMA, which the runtime needs; "
                     "run on an x86-64-v3 machine";
  return wanted ? nullptr : best;
}

// A dot product of bf16 pairs takes Zen 4 and Zen 5 no longer than a
// multiply-add of f32, and Intel's chips four times as long: there to widen is
// faster, and pairs are AMX's.
bool hasFastDots() { return __builtin_cpu_is("amd"); }

Kernels tableOf(const Isa &isa, bool dots) {
  Kernels table = *isa.table;
  table.bf16Attention = dots ? isa.bf16Attention : nullptr;
  table.bf16Product = isa.bf16Product;
  if (!dots && isa.bf16Product == &bf16::bf16Product)
    table.bf16Product = nullptr;
  return table;
}

// What is asked for by name is taken as it is.
Kernels choose() {
  const char *wanted = wantedIsa(), *refusal = nullptr;
  const Isa *isa = chooseIsa(wanted, refusal);
  if (!isa) { // nobody has asked whyNoKernels()
    std::fprintf(stderr, "shardonnx: error: %s\n", refusal);
    std::exit(1);
  }
  return tableOf(*isa, hasFastDots() || wanted);
}

} // namespace

Kernels kernelsOf(const char *name, bool dots) {
  for (const Isa &isa : kIsas)
    if (!std::strcmp(name, isa.name))
      return tableOf(isa, dots);
  return {};
}

const char *whyNoKernels() {
  const char *refusal = nullptr;
  return chooseIsa(wantedIsa(), refusal) ? nullptr : refusal;
}

const Kernels &kernels() {
  static const Kernels table = choose();
  return overriding ? *overriding : table;
}

} // namespace shardonnx::rt
