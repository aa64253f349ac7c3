// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a program can be asked to be. A new word is one line of one table here,
// and the command line, `--config`, pass options and the manifest take it.

#ifndef SHARDONNX_RUNTIME_CHOICES_H
#define SHARDONNX_RUNTIME_CHOICES_H

#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Spelling.h"

namespace shardonnx {

template <> struct Spellings<ShxDType> {
  static constexpr Spelling<ShxDType> table[] = {
      {SHX_F32, "f32"}, {SHX_BF16, "bf16"},     {SHX_F16, "f16"},
      {SHX_I64, "i64"}, {SHX_I32, "i32"},       {SHX_I1, "i1"},
      {SHX_I8, "int8"}, {SHX_F8E4M3, "f8e4m3"}, {SHX_F8E5M2, "f8e5m2"}};
};

/// What parameters, activations and gradients may be.
inline std::vector<ShxDType> floatTypes() {
  return {SHX_F32, SHX_BF16, SHX_F16};
}

/// What the operands of matrix products are rounded to.
enum class MatmulDtype { Param, F8, F8Rowwise };

template <> struct Spellings<MatmulDtype> {
  static constexpr Spelling<MatmulDtype> table[] = {
      {MatmulDtype::Param, "param", "as the parameters"},
      {MatmulDtype::F8, "fp8", "a scale for each tensor"},
      {MatmulDtype::F8Rowwise, "fp8:rowwise",
       "one for each row, weight gradients as the parameters"}};
};

/// Whose code a program is.
enum class TargetKind { CPU, CUDA };

template <> struct Spellings<TargetKind> {
  static constexpr Spelling<TargetKind> table[] = {{TargetKind::CPU, "cpu"},
                                                   {TargetKind::CUDA, "cuda"}};
};

/// How attention over parts of sequences meets the keys of the others.
enum class ContextAttention { Auto, Ulysses, Ring, AllGather };

template <> struct Spellings<ContextAttention> {
  static constexpr Spelling<ContextAttention> table[] = {
      {ContextAttention::Auto, "auto", "what sends least"},
      {ContextAttention::Ulysses, "ulysses",
       "by heads, between all-to-alls of sequences and heads"},
      {ContextAttention::Ring, "ring",
       "blocks of keys pass along the ranks, causal parts are balanced"},
      {ContextAttention::AllGather, "all-gather", "all keys on each rank"}};
};

/// Who keeps what between forward, backward and update.
enum class Strategy {
  FullShard,
  ShardGradOp,
  ShardOpt,
  NoShard,
  HybridShard,
  HybridShardZero2
};

template <> struct Spellings<Strategy> {
  static constexpr Spelling<Strategy> table[] = {
      {Strategy::FullShard, "full_shard",
       "free after forward, gather again for backward"},
      {Strategy::ShardGradOp, "shard_grad_op",
       "keep from forward to the end of the unit's backward"},
      {Strategy::ShardOpt, "shard_opt",
       "gather once a step, shard gradients and optimizer"},
      {Strategy::NoShard, "no_shard", "every rank owns everything"},
      {Strategy::HybridShard, "hybrid_shard",
       "full_shard in a group of ranks, all-reduce across"},
      {Strategy::HybridShardZero2, "hybrid_shard_zero2",
       "shard_grad_op in a group of ranks, all-reduce across"}};
};

/// Whether groups of ranks each keep the whole model.
constexpr bool isHybrid(Strategy strategy) {
  return strategy == Strategy::HybridShard ||
         strategy == Strategy::HybridShardZero2;
}

enum class LossKind { CausalLm, CrossEntropy, Mse, Graph };

template <> struct Spellings<LossKind> {
  static constexpr Spelling<LossKind> table[] = {
      {LossKind::CausalLm, "causal-lm"},
      {LossKind::CrossEntropy, "cross-entropy"},
      {LossKind::Mse, "mse"},
      {LossKind::Graph, "graph"}};
};

/// Muon: of the matrices of blocks; AdamW of the rest.
enum class Optimizer { AdamW, Adam, SGD, Muon };

template <> struct Spellings<Optimizer> {
  static constexpr Spelling<Optimizer> table[] = {{Optimizer::AdamW, "adamw"},
                                                  {Optimizer::Adam, "adam"},
                                                  {Optimizer::SGD, "sgd"},
                                                  {Optimizer::Muon, "muon"}};
};

/// What the optimizer's state may be: bf16 is rounded at random, int8 has a
/// scale for each kStateBlock elements.
inline std::vector<ShxDType> optimizerTypes() {
  return {SHX_F32, SHX_BF16, SHX_I8};
}

/// By which Muon's learning rate is multiplied for a matrix of A rows and B
/// columns, as torch.optim.Muon's adjust_lr_fn: sqrt(max(1, A/B)), or
/// 0.2·sqrt(max(A, B)), with which AdamW's learning rates serve.
enum class AdjustLR { Original, MatchRmsAdamW };

template <> struct Spellings<AdjustLR> {
  static constexpr Spelling<AdjustLR> table[] = {
      {AdjustLR::Original, "original"},
      {AdjustLR::MatchRmsAdamW, "match_rms_adamw"}};
};

/// Values that the optimizer keeps for each element of a parameter; Muon's
/// matrices have the first alone.
constexpr int statesOf(Optimizer optimizer) {
  return optimizer == Optimizer::SGD ? 1 : 2;
}

/// Where the gradients of a step's microbatches are added up.
enum class AccumulateMode { Sharded, Unsharded };

template <> struct Spellings<AccumulateMode> {
  static constexpr Spelling<AccumulateMode> table[] = {
      {AccumulateMode::Sharded, "sharded", "reduced into owned slices"},
      {AccumulateMode::Unsharded, "unsharded",
       "kept whole and reduced with the last"}};
};

/// What backward computes again. `every` and `budget` have a number behind the
/// colon.
enum class RecomputeKind { None, Block, Every, Selective, Budget };

template <> struct Spellings<RecomputeKind> {
  static constexpr Spelling<RecomputeKind> table[] = {
      {RecomputeKind::None, "none"},
      {RecomputeKind::Block, "block", "all but the unit's inputs"},
      {RecomputeKind::Every, "every:N", "the same of every N-th unit"},
      {RecomputeKind::Selective, "selective",
       "all but the results of matrix products and attention"},
      {RecomputeKind::Budget, "budget:BYTES", "as little as fits"}};
};

/// What may be asked of a single unit.
inline std::vector<RecomputeKind> unitRecomputeKinds() {
  return {RecomputeKind::None, RecomputeKind::Selective, RecomputeKind::Block};
}

/// Which Dropout nodes of the graph drop.
enum class DropoutMode { Graph, On, Off };

template <> struct Spellings<DropoutMode> {
  static constexpr Spelling<DropoutMode> table[] = {
      {DropoutMode::Graph, "graph", "those in training mode"},
      {DropoutMode::On, "on", "all with a ratio"},
      {DropoutMode::Off, "off", "none"}};
};

/// What the graph's padding masks are.
enum class MaskMode { Ones, Input, Auto };

template <> struct Spellings<MaskMode> {
  static constexpr Spelling<MaskMode> table[] = {
      {MaskMode::Ones, "ones", "folded to ones"},
      {MaskMode::Input, "input", "read from the data"},
      {MaskMode::Auto, "auto", "read where attention is not causal"}};
};

/// What the graph's position_ids are.
enum class PositionMode { Counted, Input };

template <> struct Spellings<PositionMode> {
  static constexpr Spelling<PositionMode> table[] = {
      {PositionMode::Counted, "counted", "0…S-1 in every sample"},
      {PositionMode::Input, "input", "read from the data"}};
};

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_CHOICES_H
