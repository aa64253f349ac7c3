// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See AxisWork.h.

#include "AxisWork.h"
#include "Step.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Support/ElementType.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

double fsdp::bytesOf(ValueRange values) {
  double bytes = 0;
  for (Value value : values)
    if (auto type = dyn_cast<RankedTensorType>(value.getType()))
      bytes +=
          double(type.getNumElements() * elementBytes(type.getElementType()));
  return bytes;
}

bool fsdp::sends(Operation *op) {
  return isa<nn::AllReduceOp, nn::AllGatherOp, nn::ReduceScatterOp,
             nn::AllToAllOp, nn::PartShiftOp>(op);
}

double fsdp::sentBy(Operation *op) {
  double bytes =
      std::max(bytesOf(op->getOperands()), bytesOf(op->getResults()));
  return isa<nn::AllReduceOp>(op) ? 2 * bytes : bytes;
}

bool fsdp::isFree(Operation *op) {
  return isAlias(op) ||
         isa<nn::GetOp, nn::GradOp, nn::ConstantOp, nn::IotaOp,
             nn::RotaryTableOp, nn::LossScaleOp>(op) ||
         op->hasTrait<OpTrait::IsTerminator>();
}

double fsdp::workOf(Operation *op, const AxisRates &rates) {
  if (isFree(op) || sends(op))
    return 0;
  double work =
      (bytesOf(op->getOperands()) + bytesOf(op->getResults())) / rates.moved;
  auto flops = dyn_cast<nn::FlopsOpInterface>(op);
  if (!flops)
    return work;
  // Model FLOPs count all scores.
  double share = op->hasAttr("causal") ? 0.5 : 1;
  return std::max(work, share * double(flops.getFlops()) / rates.flops);
}
