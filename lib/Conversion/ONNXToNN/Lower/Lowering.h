// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the lowering of a single op works with: the values of its inputs, a
// builder of `nn` ops at its place, and where its outputs go.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_LOWERING_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_LOWERING_H

#include "../Fold/Evaluate.h"
#include "Initializers.h"
#include "Refusals.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"

namespace shardonnx {

using nn::elementType;
using nn::rankOf;
using nn::shapeOf;

inline bool isFloat(mlir::Value value) {
  return llvm::isa<mlir::FloatType>(elementType(value));
}

class RandomDraws;

class Lowering : public nn::NNBuilder {
public:
  Lowering(mlir::OpBuilder &builder, Initializers &initializers,
           Refusals &refusals, RandomDraws &draws)
      : NNBuilder(builder, builder.getUnknownLoc()), draws(draws),
        initializers(initializers), refusals(refusals) {}

  // What a node's inputs are.

  /// The value of `input` if it is known at compile time, else null.
  const HostTensor *getConstant(mlir::Value input);
  /// The elements of a known integer tensor.
  bool getInts(mlir::Value input, llvm::SmallVectorImpl<int64_t> &values);
  /// The same of an optional input, `values` as they are where it is absent.
  bool getOptionalInts(mlir::Value input,
                       llvm::SmallVectorImpl<int64_t> &values) {
    return !input || getInts(input, values);
  }
  /// Whether `get` has a value for it.
  bool isTensor(mlir::Value input);
  /// `input` as an `nn` value of its full shape. One that is left out or is no
  /// tensor is a nn::Misfit.
  mlir::Value get(mlir::Value input);
  /// As `get`, but a constant may have size 1 along axes where it is uniform.
  mlir::Value getBroadcastable(mlir::Value input);
  llvm::ArrayRef<mlir::Value> getSequence(mlir::Value input);
  /// The shape of `input`, constant or not.
  llvm::ArrayRef<int64_t> getShape(mlir::Value input);
  /// Whether the handler that makes `output` has set it.
  bool isSet(mlir::Value output) {
    Entry &entry = entryOf(output);
    return entry.value || entry.constant;
  }
  /// Whether the node that makes `input` could not be lowered.
  bool hasFailed(mlir::Value input) { return entryOf(input).failed; }

  // What its outputs become.

  void set(mlir::Value output, mlir::Value value);
  void setConstant(mlir::Value output, HostTensor value);
  void setInitializer(mlir::Value output, onnx::InitializerOp initializer);
  void setSequence(mlir::Value output, llvm::ArrayRef<mlir::Value> values);
  void setFailed(mlir::Value output) { entryOf(output).failed = true; }

  /// Records that a node cannot be lowered; all such nodes make one error.
  Refusal unsupported(onnx::NodeOp node, const llvm::Twine &why = "") {
    return refusals.add(node, why);
  }
  /// Records that the graph itself is wrong at a node.
  Refusal wrong(onnx::NodeOp node, const llvm::Twine &why) {
    return refusals.addWrong(node, why);
  }

  using NNBuilder::constant;
  /// Size 1 along axes where it is uniform; a causal mask as comparisons.
  mlir::Value constant(const HostTensor &tensor);

  RandomDraws &draws;
  /// Whether the ops that are built will only be interpreted: their elements
  /// may then be of any type.
  bool interpreting = false;

private:
  struct Entry {
    mlir::Value value;
    std::optional<HostTensor> constant;
    onnx::InitializerOp initializer;
    llvm::SmallVector<mlir::Value> sequence;
    bool failed = false;
  };

  /// A constant's elements: large ones are read once, however often a graph
  /// has them, such as the tables of rotary positions.
  mlir::DenseElementsAttr elementsOf(const HostTensor &tensor);

  Entry &entryOf(mlir::Value value) {
    std::unique_ptr<Entry> &entry = entries[value];
    if (!entry)
      entry = std::make_unique<Entry>();
    return *entry;
  }

  Initializers &initializers;
  Refusals &refusals;
  llvm::DenseMap<mlir::Value, std::unique_ptr<Entry>> entries;
  std::vector<std::pair<HostTensor, mlir::DenseElementsAttr>> large;
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_LOWERING_H
