// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The optimizers as one fused kernel each, over vectors, the rest masked.
// Formulas of torch.optim (AdamW, Adam, SGD; dampening 0, no Nesterov).

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "shardonnx/Conversion/ExecToLLVM/ExecToLLVM.h"
#include "shardonnx/runtime/ABI.h"

using namespace mlir;
using namespace shardonnx;

namespace {

// Arithmetic on vectors without the ceremony.
class OptimizerEmitter {
public:
  OptimizerEmitter(OpBuilder &builder, Location loc, int64_t lanes)
      : b(builder), loc(loc), lanes(lanes),
        vector(VectorType::get(lanes, builder.getF32Type())),
        pointer(LLVM::LLVMPointerType::get(builder.getContext())) {}

  LLVM::LLVMFuncOp emit(StringRef name, StringRef optimizer);

private:
  void emitBody(LLVM::LLVMFuncOp function, StringRef optimizer);
  void emitStep(StringRef optimizer, Value index, Value mask);
  void adam(Value gradient, bool decoupled, Value index, Value mask);
  void sgd(Value gradient, Value index, Value mask);

  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
  Value sqrt(Value x) { return LLVM::SqrtOp::create(b, loc, x); }
  Value index(int64_t value) {
    return LLVM::ConstantOp::create(b, loc, b.getI64Type(),
                                    b.getI64IntegerAttr(value));
  }
  Value address(Value base, Value at) {
    return LLVM::GEPOp::create(b, loc, pointer, b.getF32Type(), base,
                               ValueRange{at});
  }
  Value load(unsigned argument, Value at, Value mask);
  void store(unsigned argument, Value value, Value at, Value mask);
  void loadScalars();
  Value scalar(ShxScalar which) { return scalars[which]; }

  OpBuilder &b;
  Location loc;
  int64_t lanes;
  VectorType vector;
  Type pointer;
  SmallVector<Value> bases; // by Argument
  SmallVector<Value> scalars; // by ShxScalar
  Value one;
};

enum Argument { Master, Gradient, State0, State1, Scalars, NumArguments };

} // namespace

Value OptimizerEmitter::load(unsigned argument, Value at, Value mask) {
  Value from = address(bases[argument], at);
  if (!mask)
    return LLVM::LoadOp::create(b, loc, vector, from, /*alignment=*/4);
  Value zero = LLVM::ZeroOp::create(b, loc, vector);
  return LLVM::MaskedLoadOp::create(b, loc, vector, from, mask,
                                    zero, /*alignment=*/4);
}

void OptimizerEmitter::store(unsigned argument, Value value, Value at,
                             Value mask) {
  Value to = address(bases[argument], at);
  if (mask)
    LLVM::MaskedStoreOp::create(b, loc, value, to, mask, /*alignment=*/4);
  else
    LLVM::StoreOp::create(b, loc, value, to, /*alignment=*/4);
}

// The values that change from step to step, each in every lane. Read once: the
// stores of the loop might alias them.
void OptimizerEmitter::loadScalars() {
  for (int64_t i = 0; i < SHX_NUM_SCALARS; ++i) {
    Value from = address(bases[Scalars], index(i));
    Value value = LLVM::LoadOp::create(b, loc, b.getF32Type(), from);
    scalars.push_back(vector::BroadcastOp::create(b, loc, vector, value));
  }
  one = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(vector, 1.0f));
}

// m = β1·m + (1 - β1)·g, v = β2·v + (1 - β2)·g²,
// p -= lr/(1 - β1^t) · m / (√v/√(1 - β2^t) + ε); decay on p (AdamW: Loshchilov
// & Hutter 2019) or added to g (Adam with L2).
void OptimizerEmitter::adam(Value g, bool decoupled, Value at, Value mask) {
  Value p = load(Master, at, mask);
  Value lr = scalar(SHX_LR), decay = scalar(SHX_WEIGHT_DECAY);
  Value beta1 = scalar(SHX_BETA1), beta2 = scalar(SHX_BETA2);
  if (decoupled)
    p = mul(p, sub(one, mul(lr, decay)));
  else
    g = add(g, mul(decay, p));
  Value m = add(mul(beta1, load(State0, at, mask)), mul(sub(one, beta1), g));
  Value v = add(mul(beta2, load(State1, at, mask)),
                mul(sub(one, beta2), mul(g, g)));
  Value denominator = add(div(sqrt(v), sqrt(scalar(SHX_BIAS_CORRECTION2))),
                          scalar(SHX_EPS));
  Value step = div(lr, scalar(SHX_BIAS_CORRECTION1));
  p = sub(p, mul(step, div(m, denominator)));
  store(Master, p, at, mask);
  store(State0, m, at, mask);
  store(State1, v, at, mask);
}

// buf = μ·buf + g (the first step: g), p -= lr·buf; decay added to g.
void OptimizerEmitter::sgd(Value g, Value at, Value mask) {
  Value p = load(Master, at, mask);
  g = add(g, mul(scalar(SHX_WEIGHT_DECAY), p));
  Value keep = mul(scalar(SHX_MOMENTUM), sub(one, scalar(SHX_FIRST_STEP)));
  Value buffer = add(mul(keep, load(State0, at, mask)), g);
  store(State0, buffer, at, mask);
  store(Master, sub(p, mul(scalar(SHX_LR), buffer)), at, mask);
}

void OptimizerEmitter::emitStep(StringRef optimizer, Value at, Value mask) {
  Value gradient = mul(load(Gradient, at, mask), scalar(SHX_CLIP));
  if (optimizer == "sgd")
    sgd(gradient, at, mask);
  else
    adam(gradient, /*decoupled=*/optimizer == "adamw", at, mask);
}

// Whole vectors, then one that is masked.
void OptimizerEmitter::emitBody(LLVM::LLVMFuncOp function,
                                StringRef optimizer) {
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  Value args = entry->getArgument(0);
  Value begin = entry->getArgument(1), end = entry->getArgument(2);
  for (int64_t i = 0; i < NumArguments; ++i) {
    Value from = LLVM::GEPOp::create(b, loc, pointer, pointer, args,
                                     ArrayRef<LLVM::GEPArg>{int32_t(i)});
    bases.push_back(LLVM::LoadOp::create(b, loc, pointer, from));
  }
  loadScalars();
  Value step = index(lanes);
  Value count = LLVM::SubOp::create(b, loc, end, begin);
  Value rest = LLVM::SRemOp::create(b, loc, count, step);
  Value whole = LLVM::SubOp::create(b, loc, end, rest);
  auto loop = scf::ForOp::create(b, loc, begin, whole, step);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    emitStep(optimizer, loop.getInductionVar(), Value());
  }
  Value any = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::sgt, rest,
                                   index(0));
  auto tail = scf::IfOp::create(b, loc, any, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(tail.thenBlock());
    SmallVector<int64_t> lane = llvm::to_vector(llvm::seq<int64_t>(0, lanes));
    auto i64s = VectorType::get(lanes, b.getI64Type());
    Value numbers = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(i64s, ArrayRef<int64_t>(lane)));
    Value limit = vector::BroadcastOp::create(b, loc, i64s, rest);
    Value mask = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                       numbers, limit);
    emitStep(optimizer, whole, mask);
  }
  LLVM::ReturnOp::create(b, loc, ValueRange());
}

LLVM::LLVMFuncOp OptimizerEmitter::emit(StringRef name, StringRef optimizer) {
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(b.getContext()),
      {pointer, b.getI64Type(), b.getI64Type()});
  auto function = LLVM::LLVMFuncOp::create(b, loc, name, type,
                                           LLVM::Linkage::Internal);
  OpBuilder::InsertionGuard guard(b);
  emitBody(function, optimizer);
  return function;
}

LLVM::LLVMFuncOp shardonnx::emitOptimizer(OpBuilder &builder, Location loc,
                                          StringRef name, StringRef optimizer,
                                          const TargetSpec &target) {
  return OptimizerEmitter(builder, loc, target.lanes()).emit(name, optimizer);
}
