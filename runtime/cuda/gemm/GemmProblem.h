// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product as cuBLASLt is told about it: column-major, one strided batch. A
// row-major matrix is the transpose of a column-major one, so C = A·B becomes
// Cᵀ = Bᵀ·Aᵀ: the library's left operand is our B. Everything that the choice
// of an algorithm depends on is here, and nothing else; the addresses are not.

#ifndef SHARDONNX_RUNTIME_CUDA_GEMMPROBLEM_H
#define SHARDONNX_RUNTIME_CUDA_GEMMPROBLEM_H

#include "shardonnx/runtime/ABI.h"
#include <cstdint>
#include <string>
#include <vector>

namespace shardonnx::rt::cuda {

/// The addresses of one call; what its epilogue does not use is null.
struct GemmOperands {
  const void *a = nullptr, *b = nullptr;
  void *c = nullptr, *bias = nullptr, *aux = nullptr;
  const float *stepA = nullptr, *stepB = nullptr; // of operands of 8 bits
};

struct GemmProblem {
  /// result [rows × columns] = left [rows × k] · right [k × columns].
  int64_t rows = 0, columns = 0, k = 0;
  int64_t ldLeft = 0, ldRight = 0, ldResult = 0;
  bool transLeft = false, transRight = false;
  /// Of both operands; those of 8 bits may be of two formats.
  int32_t dtypeIn = SHX_F32, dtypeRight = SHX_F32, dtypeOut = SHX_F32;
  int64_t batch = 1;
  int64_t strideLeft = 0, strideRight = 0, strideResult = 0;
  int32_t epilogue = SHX_EPILOGUE_NONE;
  bool accumulate = false, tf32 = false;
  /// Of operands of 8 bits.
  bool fastSums = false, rowSteps = false;
  /// Powers of two that divide the addresses, at most 256; 0: not there.
  int32_t alignLeft = 256, alignRight = 256, alignResult = 256;
  int32_t alignBias = 0, alignAux = 0;
  int64_t workspaceBytes = 0;
  /// Of the GPU's processors, what collectives leave; 0: all.
  int32_t processors = 0;

  /// A bias that is another one for every row: the library's C.
  bool addsAux() const {
    return epilogue == SHX_EPILOGUE_BIAS && alignAux != 0;
  }
  /// The same for equal problems, in every run; one word, for the cache file.
  std::string key() const;
};

/// Where in its operands one product of the outer batch dims begins, in
/// elements.
struct GemmOffset {
  int64_t a = 0, b = 0, c = 0;
};

/// A product of the ABI: its problem, solved once for each offset.
struct GemmCall {
  GemmProblem problem;
  std::vector<GemmOffset> offsets;
};

/// `desc` has the dtypes of a product of the library; its matrices lie where
/// `operands` says. `libraryBytes` of workspace are at hand.
GemmCall makeGemmCall(const ShxGemm &desc, const GemmOperands &operands,
                      int64_t libraryBytes);

/// What cuBLASLt's documentation asks of an epilogue beyond the product: aux
/// with a leading dimension that 8 divides, bias and aux on 16 bytes. A bias of
/// f32 behind operands of 8 bits is not there.
bool mayFuseEpilogue(const GemmProblem &problem);

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_GEMMPROBLEM_H
