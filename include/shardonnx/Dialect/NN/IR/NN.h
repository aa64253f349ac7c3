// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The nn dialect: differentiable tensor ops with static shapes.

#ifndef SHARDONNX_DIALECT_NN_IR_NN_H
#define SHARDONNX_DIALECT_NN_IR_NN_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "shardonnx/Dialect/NN/Interpreter/InterpretableOpInterface.h"
#include "llvm/ADT/SmallBitVector.h"

namespace shardonnx::nn {

/// When in a step an op runs: `backward` where a gradient flows through it,
/// `recompute` where it makes a value of forward again for backward.
enum class Phase { forward, recompute, backward };

llvm::StringRef stringifyPhase(Phase phase);
std::optional<Phase> symbolizePhase(llvm::StringRef text);

} // namespace shardonnx::nn

#include "shardonnx/Dialect/NN/IR/NNOpsDialect.h.inc"
#include "shardonnx/Dialect/NN/IR/NNOpsEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "shardonnx/Dialect/NN/IR/NNOpsAttrs.h.inc"

#include "shardonnx/Dialect/NN/IR/NNInterfaces.h.inc"

#define GET_OP_CLASSES
#include "shardonnx/Dialect/NN/IR/NNOps.h.inc"

namespace shardonnx::nn {

/// Where `op` stands; null for one of forward that has no unit, and for ops of
/// other dialects.
PlaceAttr placeOf(mlir::Operation *op);

/// The module that `op` was written in, as nn-assign-units has yet to read it;
/// empty where the exporter did not say, and for ops of other dialects.
llvm::StringRef scopeOf(mlir::Operation *op);

/// The FSDP unit that `op` belongs to; null when it has none.
mlir::FlatSymbolRefAttr unitOf(mlir::Operation *op);
void setUnit(mlir::Operation *op, mlir::FlatSymbolRefAttr unit);

/// The phase of `op`. An op of another dialect (a return) is of backward
/// where it reads what backward computes.
Phase phaseOf(mlir::Operation *op);
void setPhase(mlir::Operation *op, Phase phase);
/// Gradients, and what is computed again for them.
inline bool isBackward(mlir::Operation *op) {
  return phaseOf(op) != Phase::forward;
}

/// Whether `op` reads what backward computes.
bool readsBackward(mlir::Operation *op);

/// Puts `op`, which was made from an op at `source` or for it, in the same
/// module and unit. It is computed again where that was, and of backward where
/// it reads what backward computes.
void inheritPlace(mlir::Operation *op, PlaceAttr source);
void inheritPlace(mlir::Operation *op, mlir::Operation *source);

/// Says of every op of `block` whether it is of backward: what depends on
/// `nn.loss_scale` or on what is computed again.
void markBackward(mlir::Block &block);

/// What `op` does beside its operands: its attributes without its place.
mlir::DictionaryAttr attributesWithoutPlace(mlir::Operation *op);

/// Gives the nn ops that a builder inserts a place. Constants and parameters
/// are left out: they belong to whoever reads them.
class PlaceListener : public mlir::RewriterBase::Listener {
public:
  explicit PlaceListener(PlaceAttr place = nullptr) : place(place) {}

  void notifyOperationInserted(mlir::Operation *op,
                               mlir::OpBuilder::InsertPoint previous) override;
  /// Under a greedy rewriter: the place of the op that a pattern rewrites.
  void notifyPatternBegin(const mlir::Pattern &pattern,
                          mlir::Operation *op) override;

  PlaceAttr place;
};

/// Of arguments and results of functions: the graph's name for it, and what the
/// data loader feeds (docs/nn.md lists the kinds, Inputs.h reads them).
inline constexpr llvm::StringLiteral kNameAttr = "nn.name";
inline constexpr llvm::StringLiteral kKindAttr = "nn.kind";
/// Of a result: the value of an output that was computed by the raise, of any
/// element type. What the function returns in its place has no meaning.
inline constexpr llvm::StringLiteral kValueAttr = "nn.value";
/// What nn-make-eval says of an argument that is a weight: its symbol, and
/// where its bytes lie; of a result that is a gradient: the name of what it is
/// of.
inline constexpr llvm::StringLiteral kWeightAttr = "nn.weight";
inline constexpr llvm::StringLiteral kSourceAttr = "nn.source";
inline constexpr llvm::StringLiteral kGradientOfAttr = "nn.gradient_of";

/// Of the module: the ONNX file that it was read from.
inline constexpr llvm::StringLiteral kModelAttr = "nn.model";

/// Of the module: the element type of parameter gradients.
inline constexpr llvm::StringLiteral kReduceDtypeAttr = "nn.reduce_dtype";

/// Of the module: floats are computed as the graph says, bit for bit
/// (`--strict-numerics`).
inline constexpr llvm::StringLiteral kStrictAttr = "nn.strict_numerics";

/// Whether the module of `op` is strict.
bool isStrict(mlir::Operation *op);

/// Of the module: the token that ends a document (an i64), where samples are
/// packed.
inline constexpr llvm::StringLiteral kDocumentSeparatorAttr =
    "nn.document_separator";

/// Of the module: which loss was attached, `causal-lm`, `cross-entropy`, `mse`
/// or `graph`.
inline constexpr llvm::StringLiteral kLossKindAttr = "nn.loss_kind";

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_NN_H
