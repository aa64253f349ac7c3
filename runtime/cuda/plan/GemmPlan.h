// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a matrix product lays out its workspace on CUDA: for Workspace.cpp, which
// says how large it is, and for the call, which uses it. cuBLASLt multiplies
// operands of one dtype, and adds them up in f32 or in that dtype: what is
// neither is converted into the workspace first.

#ifndef SHARDONNX_RUNTIME_CUDA_GEMMPLAN_H
#define SHARDONNX_RUNTIME_CUDA_GEMMPLAN_H

#include "ElementBytes.h"
#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Layout.h"

namespace shardonnx::rt::cuda {

/// What cuBLAS's authors recommend for Hopper: for products with a tile for
/// every processor, whose kernels may cut the last ones up. Those with fewer
/// tiles get as many partial sums as occupy the processors, each of so many
/// terms at least, so that tiny programs stay tiny.
constexpr int64_t kGemmLibraryBytes = int64_t(32) << 20;
constexpr int64_t kGemmProcessors = 132, kGemmTile = 128;
constexpr int64_t kGemmTermsPerPart = 256;
/// Rows that a bias's gradient is split into at most.
constexpr int64_t kGemmColumnSplits = 64;
constexpr int64_t kGemmAlignment = 256;

/// Offsets in bytes, -1 where the operand is used as it is.
struct GemmPlan {
  int32_t dtypeIn;  // of both operands of the library's product
  int32_t dtypeOut; // of its result
  int64_t a, b, c;
  int64_t library, libraryBytes;
  int64_t bytes;

  constexpr bool converts() const { return a >= 0 || b >= 0 || c >= 0; }
};

/// Matrices that the operand really has: a batch dim of stride 0 repeats one.
constexpr int64_t gemmMatrices(const ShxGemm &desc, const int64_t *strides) {
  int64_t count = 1;
  for (int32_t i = 0; i < desc.batchRank; ++i)
    if (strides[i] != 0)
      count *= desc.batch[i];
  return count;
}

/// How many sums of parts of k are worth room in the workspace. Where the
/// result alone occupies the GPU they are those of its last tiles, for which
/// four times the result is room enough.
constexpr int64_t gemmParts(const ShxGemm &desc, int64_t results) {
  // A dim may be short of a tile. No product here overflows: tiles are counted
  // up to the number of processors.
  auto along = [](int64_t size) {
    int64_t tiles = size / kGemmTile + (size % kGemmTile != 0 ? 1 : 0);
    return tiles < kGemmProcessors ? tiles : kGemmProcessors;
  };
  int64_t matrix = desc.m > 0 && desc.n > 0 ? results / desc.m / desc.n : 1;
  int64_t matrices = matrix < kGemmProcessors ? matrix : kGemmProcessors;
  int64_t tiles = along(desc.m) * along(desc.n) * (matrices > 0 ? matrices : 1);
  int64_t useful = tiles >= kGemmProcessors ? 4 : kGemmProcessors / tiles;
  int64_t longest = desc.k / kGemmTermsPerPart;
  return longest < useful ? longest : useful;
}

constexpr int64_t gemmLibraryBytes(const ShxGemm &desc, int64_t results) {
  int64_t parts = gemmParts(desc, results);
  // 4 bytes each, compared without a product that could overflow.
  int64_t bytes = kGemmLibraryBytes;
  if (parts < 2)
    bytes = 0;
  else if (results < kGemmLibraryBytes / (parts * 4))
    bytes = results * parts * 4;
  // Where the library does not do an epilogue: column sums of parts.
  bool sums = desc.epilogue == SHX_EPILOGUE_BGRAD;
  int64_t columns = sums ? kGemmColumnSplits * desc.n * 4 : 0;
  return alignTo(bytes > columns ? bytes : columns, kGemmAlignment);
}

constexpr GemmPlan planGemm(const ShxGemm &desc) {
  GemmPlan plan{};
  // Of 8 bits the library takes both formats, and gives what is asked for.
  bool f8 = isF8(desc.dtypeA) && isF8(desc.dtypeB);
  bool same = f8 || desc.dtypeA == desc.dtypeB;
  plan.dtypeIn = same ? desc.dtypeA : int32_t(SHX_F32);
  bool gives = f8 || desc.dtypeC == plan.dtypeIn;
  plan.dtypeOut = gives ? desc.dtypeC : int32_t(SHX_F32);
  int64_t at = 0;
  auto take = [&at](bool needed, int64_t elements, int32_t dtype) {
    if (!needed)
      return int64_t(-1);
    int64_t here = at;
    at += alignTo(elements * bytesOf(dtype), kGemmAlignment);
    return here;
  };
  plan.a = take(desc.dtypeA != plan.dtypeIn,
                gemmMatrices(desc, desc.batchStrideA) * desc.m * desc.k,
                plan.dtypeIn);
  plan.b = take(!f8 && desc.dtypeB != plan.dtypeIn,
                gemmMatrices(desc, desc.batchStrideB) * desc.k * desc.n,
                plan.dtypeIn);
  int64_t results = gemmMatrices(desc, desc.batchStrideC) * desc.m * desc.n;
  plan.c = take(desc.dtypeC != plan.dtypeOut, results, plan.dtypeOut);
  plan.library = at;
  plan.libraryBytes = gemmLibraryBytes(desc, results);
  plan.bytes = plan.library + plan.libraryBytes;
  return plan;
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_GEMMPLAN_H
