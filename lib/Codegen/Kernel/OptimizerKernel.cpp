// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The optimizers: torch.optim's formulas as nn ops, through the same
// generator as every other kernel.
//
// AdamW (Loshchilov & Hutter 2019): p ← p·(1 - lr·wd), then
//   m ← β1·m + (1 - β1)·g,  v ← β2·v + (1 - β2)·g²,
//   p ← p - lr/(1 - β1^t) · m / (sqrt(v)/sqrt(1 - β2^t) + ε).
// Adam (Kingma & Ba 2015): the same with g ← g + wd·p in place of the decay.
// SGD: g ← g + wd·p, b ← μ·b + g (b = g on the first step), p ← p - lr·b.
// g is the reduced gradient times the clip factor, cut at the clip value. A
// step to be skipped leaves everything as it is, whatever the gradients are.
// Where products read another type than the master's, that is written, too.

#include "shardonnx/Codegen/Kernel/OptimizerKernel.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Support/ElementType.h"
#include "shardonnx/runtime/ABI.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

// Of shx_optimizer's argument array.
enum Slot : unsigned {
  kMaster,
  kGradient,
  kState0,
  kState1,
  kParams,
  kScalars
};

namespace {

/// The body of the kernel: block arguments are the slices, then the scalars.
class OptimizerBody {
public:
  OptimizerBody(MLIRContext *context, Location loc)
      : builder(context), b(builder, loc), region(std::make_unique<Region>()),
        block(new Block()) {
    region->push_back(block);
    builder.setInsertionPointToEnd(block);
    for (unsigned slot = kMaster; slot <= kState1; ++slot)
      addArgument(kLength, slot, 0);
    for (unsigned scalar = 0; scalar < SHX_NUM_SCALARS; ++scalar)
      addArgument(1, kScalars, scalar);
  }

  void build(Optimizer optimizer, ShxDType paramType);
  FailureOr<OptimizerKernel> finish();

private:
  // The length of a slice is the runtime's to say; a flat kernel has none.
  static constexpr int64_t kLength = 1 << 20;

  void addArgument(int64_t length, unsigned slot, int64_t offset);
  MemRefType bufferType(Type element, int64_t length, int64_t offset);
  // What becomes of a slice, unless the step is skipped.
  Value yield(Value value, Slot slot);
  Value slice(Slot slot) { return block->getArgument(slot); }
  Value scalar(ShxScalar scalar) {
    return block->getArgument(kState1 + 1 + scalar);
  }
  // The new master.
  Value buildAdam(Value master, Value gradient);
  Value buildSGD(Value master, Value gradient);

  OpBuilder builder;
  nn::NNBuilder b;
  std::unique_ptr<Region> region;
  Block *block;
  Value skips;
  SmallVector<unsigned> slots;
  SmallVector<MemRefType> types;
  SmallVector<Value> results;
  SmallVector<unsigned> resultSlots;
  SmallVector<MemRefType> resultTypes;
};

} // namespace

MemRefType OptimizerBody::bufferType(Type element, int64_t length,
                                     int64_t offset) {
  auto layout =
      StridedLayoutAttr::get(builder.getContext(), offset, int64_t(1));
  return MemRefType::get({length}, element, layout);
}

void OptimizerBody::addArgument(int64_t length, unsigned slot, int64_t offset) {
  Type f32 = builder.getF32Type();
  block->addArgument(RankedTensorType::get({length}, f32), b.loc);
  slots.push_back(slot);
  types.push_back(bufferType(f32, length, offset));
}

Value OptimizerBody::yield(Value value, Slot slot) {
  results.push_back(b.select(skips, slice(slot), value));
  resultSlots.push_back(slot);
  resultTypes.push_back(types[slot]);
  return results.back();
}

Value OptimizerBody::buildAdam(Value master, Value gradient) {
  Value m = b.add(b.mul(slice(kState0), scalar(SHX_BETA1)),
                  b.mul(gradient, scalar(SHX_ONE_MINUS_BETA1)));
  Value v =
      b.add(b.mul(slice(kState1), scalar(SHX_BETA2)),
            b.mul(b.mul(gradient, gradient), scalar(SHX_ONE_MINUS_BETA2)));
  Value root = b.unary<nn::SqrtOp>(v);
  Value correction = b.unary<nn::SqrtOp>(scalar(SHX_BIAS_CORRECTION2));
  Value denominator = b.add(b.div(root, correction), scalar(SHX_EPS));
  Value step = b.div(scalar(SHX_LR), scalar(SHX_BIAS_CORRECTION1));
  Value updated =
      yield(b.sub(master, b.mul(step, b.div(m, denominator))), kMaster);
  yield(m, kState0);
  yield(v, kState1);
  return updated;
}

Value OptimizerBody::buildSGD(Value master, Value gradient) {
  Value kept = b.add(b.mul(slice(kState0), scalar(SHX_MOMENTUM)), gradient);
  Value first = b.compare(nn::ComparePredicate::ne, scalar(SHX_FIRST_STEP),
                          b.constant(0.0));
  Value momentum = b.select(first, gradient, kept);
  Value updated =
      yield(b.sub(master, b.mul(momentum, scalar(SHX_LR))), kMaster);
  yield(momentum, kState0);
  return updated;
}

void OptimizerBody::build(Optimizer optimizer, ShxDType paramType) {
  skips =
      b.compare(nn::ComparePredicate::ne, scalar(SHX_SKIP), b.constant(0.0));
  Value master = slice(kMaster);
  Value limit = scalar(SHX_CLIP_VALUE), least = b.mul(limit, -1.0);
  Value gradient = b.mul(slice(kGradient), scalar(SHX_CLIP));
  gradient = b.select(b.compare(nn::ComparePredicate::gt, gradient, limit),
                      limit, gradient);
  gradient = b.select(b.compare(nn::ComparePredicate::lt, gradient, least),
                      least, gradient);
  Value decay = scalar(SHX_WEIGHT_DECAY);
  if (optimizer == Optimizer::AdamW)
    master = b.mul(master, b.oneMinus(b.mul(scalar(SHX_LR), decay)));
  else
    gradient = b.add(gradient, b.mul(master, decay));
  Value updated = optimizer == Optimizer::SGD ? buildSGD(master, gradient)
                                              : buildAdam(master, gradient);
  if (paramType == SHX_F32)
    return;
  Type type = typeOfDtype(builder.getContext(), paramType);
  results.push_back(b.cast(updated, type));
  resultSlots.push_back(kParams);
  resultTypes.push_back(bufferType(type, kLength, 0));
}

FailureOr<OptimizerKernel> OptimizerBody::finish() {
  nn::YieldOp::create(builder, b.loc, results);
  llvm::append_range(types, resultTypes);
  llvm::append_range(slots, resultSlots);
  FailureOr<Kernel> kernel =
      Kernel::get(nn::FusedKind::rows, {kLength}, *block, types);
  if (failed(kernel))
    return failure();
  kernel->setSlots(slots);
  return OptimizerKernel{std::move(region), std::move(*kernel)};
}

FailureOr<OptimizerKernel> kernels::buildOptimizerKernel(MLIRContext *context,
                                                         Location loc,
                                                         Optimizer optimizer,
                                                         ShxDType paramType) {
  context->loadDialect<nn::NNDialect>();
  OptimizerBody body(context, loc);
  body.build(optimizer, paramType);
  return body.finish();
}
