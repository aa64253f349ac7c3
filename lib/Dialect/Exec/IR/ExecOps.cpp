// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Buffers, views, kernels and their launches, the loss: what must hold of each.

#include "shardonnx/Dialect/Exec/IR/Exec.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

// Strides that are static and not negative, from offset 0.
static LogicalResult verifyLayout(Operation *op, Type type) {
  auto memref = cast<MemRefType>(type);
  if (memref.hasStaticShape() && memref.getLayout().isIdentity())
    return success();
  int64_t offset = 0;
  SmallVector<int64_t> strides;
  if (!memref.hasStaticShape() ||
      failed(memref.getStridesAndOffset(strides, offset)))
    return op->emitOpError("needs a static strided memref, got ") << type;
  if (offset != 0 || llvm::any_of(strides, [](int64_t s) {
        return ShapedType::isDynamic(s) || s < 0;
      }))
    return op->emitOpError("needs static, non-negative strides and offset 0");
  return success();
}

LogicalResult BufferOp::verify() {
  if (failed(verifyLayout(*this, getType())))
    return failure();
  bool named = getSpace() == Space::params || getSpace() == Space::gradients ||
               getSpace() == Space::constant;
  if (named != bool(getSymbolAttr()))
    return emitOpError(named ? "needs the symbol of its unit or constant"
                             : "of this space has no symbol");
  if (int64_t(getOffset()) < 0)
    return emitOpError("has a negative offset");
  return success();
}

LogicalResult ViewOp::verify() {
  if (failed(verifyLayout(*this, getType())))
    return failure();
  auto source = cast<MemRefType>(getSource().getType());
  auto result = cast<MemRefType>(getType());
  if (source.getElementType() != result.getElementType())
    return emitOpError("changes the element type");
  int64_t offset = getOffset();
  if (offset < 0 || offset + spanOf(result) > spanOf(source))
    return emitOpError("reaches element ")
           << offset + spanOf(result) - 1 << " of a source of "
           << spanOf(source);
  return success();
}

LogicalResult KernelOp::verify() {
  Block &body = getBody().front();
  auto yield = dyn_cast<nn::YieldOp>(body.back());
  if (!yield)
    return emitOpError("must end in nn.yield");
  SmallVector<Type> tensors(body.getArgumentTypes());
  llvm::append_range(tensors, yield.getOperandTypes());
  if (tensors.size() != getOperandTypes().size())
    return emitOpError("has ") << tensors.size() << " inputs and outputs but "
                               << getOperandTypes().size() << " operand types";
  for (auto [index, tensor] : llvm::enumerate(tensors)) {
    auto type = cast<TypeAttr>(getOperandTypes()[index]).getValue();
    auto memref = dyn_cast<MemRefType>(type);
    auto shaped = cast<RankedTensorType>(tensor);
    if (!memref || memref.getShape() != shaped.getShape() ||
        memref.getElementType() != shaped.getElementType())
      return emitOpError("operand type #")
             << index << " is " << type << " for a " << tensor;
    if (failed(verifyLayout(*this, memref)))
      return failure();
  }
  return success();
}

void LaunchOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  for (OpOperand &input : getInputsMutable())
    effects.emplace_back(MemoryEffects::Read::get(), &input);
  for (OpOperand &output : getOutputsMutable())
    effects.emplace_back(MemoryEffects::Write::get(), &output);
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel =
      symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("no exec.kernel ") << getKernelAttr();
  if (kernel.getNumInputs() != getInputs().size() ||
      kernel.getOperandTypes().size() !=
          getInputs().size() + getOutputs().size())
    return emitOpError("passes ")
           << getInputs().size() << " inputs and " << getOutputs().size()
           << " outputs to " << getKernelAttr();
  for (auto [index, type] : llvm::enumerate(
           llvm::concat<const Type>(llvm::to_vector(getInputs().getTypes()),
                                    llvm::to_vector(getOutputs().getTypes()))))
    if (kernel.getOperandType(index) != type)
      return emitOpError("operand #")
             << index << " is " << type << ", the kernel takes "
             << kernel.getOperandType(index);
  return success();
}

LogicalResult LossOp::verify() {
  auto type = cast<MemRefType>(getSum().getType());
  if (type.getNumElements() != 1 || !type.getElementType().isF32())
    return emitOpError("sum must be one f32");
  return success();
}

// A unit is a symbol of the fsdp dialect, which this one does not depend on.
static LogicalResult verifyUnit(Operation *op, FlatSymbolRefAttr unit,
                                SymbolTableCollection &symbols) {
  Operation *symbol = symbols.lookupNearestSymbolFrom(op, unit);
  if (!symbol || symbol->getName().getStringRef() != "fsdp.unit")
    return op->emitOpError("no fsdp.unit ") << unit;
  return success();
}

#define SHARDONNX_UNIT_OP(OP)                                                  \
  LogicalResult OP::verifySymbolUses(SymbolTableCollection &symbols) {         \
    return verifyUnit(*this, getUnitAttr(), symbols);                          \
  }
SHARDONNX_UNIT_OP(GatherStartOp)
SHARDONNX_UNIT_OP(GatherWaitOp)
SHARDONNX_UNIT_OP(GatherFreeOp)
SHARDONNX_UNIT_OP(GatherReshardOp)
SHARDONNX_UNIT_OP(GradAcquireOp)
SHARDONNX_UNIT_OP(ReduceStartOp)
SHARDONNX_UNIT_OP(ReduceWaitOp)
SHARDONNX_UNIT_OP(OptimizerOp)
SHARDONNX_UNIT_OP(MuonStartOp)
SHARDONNX_UNIT_OP(MuonFinishOp)
#undef SHARDONNX_UNIT_OP
