// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The state of a graph while its nodes become `nn` ops one by one, and what the
// lowerings of single ops share.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_LOWERING_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_LOWERING_H

#include "../Fold/Evaluate.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Dialect/ONNX/IR/ONNX.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace shardonnx {

class Lowering;

/// Lowers one node. On failure it has called `unsupported`, which records why.
using Handler = llvm::LogicalResult (*)(Lowering &, onnx::NodeOp);
using HandlerTable = llvm::StringMap<Handler>;

void addElementwiseHandlers(HandlerTable &table);
void addMathHandlers(HandlerTable &table);
void addShapeHandlers(HandlerTable &table);
void addGatherHandlers(HandlerTable &table);
void addMatmulHandlers(HandlerTable &table);
void addAttentionHandlers(HandlerTable &table);
void addNormHandlers(HandlerTable &table);
void addChannelNormHandlers(HandlerTable &table);
void addReduceHandlers(HandlerTable &table);
void addRearrangeHandlers(HandlerTable &table);
void addEinsumHandlers(HandlerTable &table);
void addLossHandlers(HandlerTable &table);
const HandlerTable &getHandlers();

/// The static shape of an `nn` value.
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getShape();
}
inline mlir::Type elementTypeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getElementType();
}

class Lowering {
public:
  Lowering(mlir::ModuleOp module, bool assumeFullMask, bool positionsVary,
           DropoutMode dropout)
      : builder(module.getContext()), module(module),
        assumeFullMask(assumeFullMask), positionsVary(positionsVary),
        dropoutMode(dropout) {}

  /// Rewrites the module; on failure one error has been emitted.
  llvm::LogicalResult run();

  // What a node's inputs are.

  /// The value of `input` if it is known at compile time, else null.
  const HostTensor *getConstant(mlir::Value input);
  /// The elements of a known integer tensor.
  bool getInts(mlir::Value input, llvm::SmallVectorImpl<int64_t> &values);
  /// `input` as an `nn` value of its full shape.
  mlir::Value get(mlir::Value input);
  /// As `get`, but a constant may have size 1 along axes where it is uniform.
  mlir::Value getBroadcastable(mlir::Value input);
  llvm::ArrayRef<mlir::Value> getSequence(mlir::Value input);
  /// The shape of `input`, constant or not.
  llvm::ArrayRef<int64_t> getShape(mlir::Value input);

  // What its outputs become.

  void set(mlir::Value output, mlir::Value value);
  void setConstant(mlir::Value output, HostTensor value);
  void setSequence(mlir::Value output, llvm::ArrayRef<mlir::Value> values);

  /// Records that a node cannot be lowered; all such nodes make one error.
  llvm::LogicalResult unsupported(onnx::NodeOp node,
                                  const llvm::Twine &why = "");

  // Building at the place of the node that is being lowered.

  mlir::Location loc() const { return location; }
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> permutation);
  mlir::Value slice(mlir::Value value, unsigned axis, int64_t start,
                    int64_t size);
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value castTo(mlir::Value value, mlir::Type elementType);
  mlir::Value splat(double value, mlir::Type elementType,
                    llvm::ArrayRef<int64_t> shape = {});
  mlir::Value constant(const HostTensor &tensor);
  /// `value` with a share of its elements dropped; null, and the node is
  /// refused, where samples cannot be told apart.
  mlir::Value dropout(onnx::NodeOp node, mlir::Value value, double ratio);
  /// Says once that a Dropout node with a ratio does nothing.
  void warnOfIdleDropout(onnx::NodeOp node);
  DropoutMode getDropoutMode() const { return dropoutMode; }
  template <typename Op> mlir::Value binary(mlir::Value lhs, mlir::Value rhs) {
    auto shape = broadcastShapes(shapeOf(lhs), shapeOf(rhs));
    assert(shape && "operands must broadcast");
    return Op::create(builder, location,
                      mlir::RankedTensorType::get(*shape, elementTypeOf(lhs)),
                      lhs, rhs);
  }
  template <typename Op> mlir::Value unary(mlir::Value operand) {
    return Op::create(builder, location, operand.getType(), operand);
  }

  mlir::OpBuilder builder;

private:
  struct Entry {
    mlir::Value value;
    std::optional<HostTensor> constant;
    onnx::InitializerOp initializer;
    llvm::SmallVector<mlir::Value> sequence;
    bool failed = false;
  };

  Entry &entryOf(mlir::Value value) {
    std::unique_ptr<Entry> &entry = entries[value];
    if (!entry)
      entry = std::make_unique<Entry>();
    return *entry;
  }
  llvm::LogicalResult lowerFunction(mlir::func::FuncOp function);
  llvm::LogicalResult bindArguments(mlir::func::FuncOp function,
                                    mlir::Block &newEntry);
  mlir::Value returned(mlir::Value output, mlir::Attribute &known);
  bool bindKnownInput(mlir::Value argument, llvm::StringRef name);
  bool isCompilable(onnx::NodeOp node);
  llvm::LogicalResult lowerData(onnx::NodeOp node);
  void lowerNode(onnx::NodeOp node);
  bool evaluate(onnx::NodeOp node);
  bool isPoisoned(onnx::NodeOp node);
  void loadConstant(Entry &entry);
  mlir::Value materialize(mlir::Value input, bool broadcastable);
  mlir::Value getParameter(Entry &entry);
  llvm::LogicalResult finish(mlir::func::FuncOp function,
                             mlir::Block &newEntry);
  llvm::LogicalResult reportUnsupported();

  mlir::ModuleOp module;
  bool assumeFullMask, positionsVary;
  /// The graph is run as it is: nothing is assumed of its inputs, and outputs
  /// that are known are told rather than computed.
  bool evaluating = module->hasAttr(kEvaluateAttr);
  llvm::SmallVector<unsigned> boundArguments; // their places in the ONNX graph
  DropoutMode dropoutMode;
  mlir::BlockArgument random; // appended for the first dropout
  int64_t dropouts = 0;
  bool warnedOfDropout = false;
  mlir::Location location = mlir::UnknownLoc::get(module.getContext());
  llvm::DenseMap<mlir::Value, std::unique_ptr<Entry>> entries;
  llvm::DenseMap<mlir::Operation *, nn::ParameterOp> parameters;
  bool broken = false;

  struct Refused {
    unsigned count = 0;
    llvm::SmallVector<std::string, 3> nodes;
    std::string why;
  };
  llvm::MapVector<llvm::StringRef, Refused> refused;
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_LOWERING_H
