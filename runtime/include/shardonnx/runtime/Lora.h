// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adapters of low rank beside frozen products (Hu et al. 2021, LoRA), with the
// defaults of PEFT's LoraConfig.

#ifndef SHARDONNX_RUNTIME_LORA_H
#define SHARDONNX_RUNTIME_LORA_H

#include "shardonnx/runtime/Spelling.h"
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace shardonnx {

struct Lora {
  int64_t rank = 8;
  double alpha = 8;   // lora_alpha
  double dropout = 0; // lora_dropout, of what the adapter reads
  bool rslora = false;
  /// Weights taken apart into the length and the direction of their rows, the
  /// length being trained by itself (Liu et al. 2024, DoRA).
  bool dora = false;
  /// Paths of the modules whose weight is [in, out], as transformers' Conv1D;
  /// others' are [out, in], as nn.Linear's.
  std::vector<std::string> fanInFanOut;

  /// A weight that PEFT adapts as a parameter (target_parameters), not as a
  /// module's: a router's, or experts in one tensor.
  struct Parameter {
    std::string weight;
    std::string adapter; // before kLoraA and kLoraB
    int64_t experts = 1;
    /// May be others than those of modules.
    int64_t rank = 8;
    double alpha = 8;
    bool fanInFanOut = false;
  };
  std::vector<Parameter> parameters;

  bool isParameter(const std::string &adapter) const {
    for (const Parameter &own : parameters)
      if (own.adapter == adapter)
        return true;
    return false;
  }

  /// What the adapter's result is multiplied with: alpha / rank, or alpha over
  /// its root (Kalajdzievski 2023, rank-stabilised LoRA).
  double scaling() const { return scaling(rank, alpha); }
  double scaling(const Parameter &own) const {
    return scaling(own.rank, own.alpha);
  }

private:
  double scaling(int64_t rank, double alpha) const {
    auto r = static_cast<double>(rank);
    return alpha / (rslora ? std::sqrt(r) : r);
  }
};

/// The ends of an adapter's two parameters' names, behind the module's path:
/// A [rank, in], B [out, rank].
inline constexpr const char *kLoraA = ".lora_A.weight";
inline constexpr const char *kLoraB = ".lora_B.weight";

/// DoRA's lengths [out].
inline constexpr const char *kLoraMagnitude = ".lora_magnitude_vector";

inline constexpr const char *kLoraWeight = ".weight"; // of the module itself

/// First values of a parameter that no file has.
enum class DrawKind { UniformFanIn, Zeros, RowLengths };

template <> struct Spellings<DrawKind> {
  static constexpr Spelling<DrawKind> table[] = {
      {DrawKind::UniformFanIn, "uniform_fan_in", "within 1 / sqrt(columns)"},
      {DrawKind::Zeros, "zeros"},
      {DrawKind::RowLengths, "row_lengths", "of the module's weight"}};
};

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_LORA_H
