// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a configuration sets for single units, as every pass asks for it.

#ifndef SHARDONNX_DIALECT_NN_IR_UNITPOLICY_H
#define SHARDONNX_DIALECT_NN_IR_UNITPOLICY_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Types.h"
#include "shardonnx/runtime/Spelling.h"

namespace mlir {
class Operation;
}

namespace shardonnx::nn {

/// Module attributes. What the configuration's `units` say, in order, until
/// nn-assign-units has read it: dictionaries of `modules` and settings. Then
/// the settings by unit, for those that have any.
inline constexpr llvm::StringLiteral kUnitRulesAttr = "nn.unit_rules";
inline constexpr llvm::StringLiteral kUnitPoliciesAttr = "nn.unit_policies";

/// The settings of a unit's policy (docs/fsdp.md).
inline constexpr llvm::StringLiteral kParamDtypeKey = "param_dtype";
inline constexpr llvm::StringLiteral kReduceDtypeKey = "reduce_dtype";
inline constexpr llvm::StringLiteral kOutputDtypeKey = "output_dtype";
inline constexpr llvm::StringLiteral kMatmulDtypeKey = "matmul_dtype";
inline constexpr llvm::StringLiteral kGatherDtypeKey = "gather_dtype";
inline constexpr llvm::StringLiteral kCastInputsKey = "cast_forward_inputs";
inline constexpr llvm::StringLiteral kReshardKey = "reshard_after_forward";
inline constexpr llvm::StringLiteral kRecomputeKey = "recompute";
inline constexpr llvm::StringLiteral kForwardPrefetchKey = "forward_prefetch";
inline constexpr llvm::StringLiteral kBackwardPrefetchKey = "backward_prefetch";
inline constexpr llvm::StringLiteral kKeptKey = "kept";

/// The N of `--unit=size:N` that leaves everything to the root: elements that
/// no model has.
inline constexpr int64_t kSizeOfNoUnit = int64_t(1) << 40;

/// What the policy of `unit` says of `key`; null when nothing. `op` is the
/// module or stands in it.
mlir::Attribute unitSetting(mlir::Operation *op, llvm::StringRef unit,
                            llvm::StringRef key);

/// The same of a key whose settings are words of a table; `asked` when the
/// policy says nothing.
template <typename Choice>
Choice unitChoice(mlir::Operation *op, llvm::StringRef unit,
                  llvm::StringRef key, Choice asked) {
  auto word =
      llvm::dyn_cast_or_null<mlir::StringAttr>(unitSetting(op, unit, key));
  return word ? parseSpelling<Choice>(word.getValue()).value_or(asked) : asked;
}

/// The element type in which gradients of the parameter that `op` is or reads
/// are reduced: its unit's, else the module's; null when neither is set.
mlir::Type reduceType(mlir::Operation *op);

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_UNITPOLICY_H
