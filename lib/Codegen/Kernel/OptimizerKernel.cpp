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
// Muon (Jordan 2024), of matrices: b ← b + (1 - μ)·(g - b), and, by Nesterov,
//   d ← b + (1 - μ)·(g - b), as bf16; the runtime makes d orthogonal; then
//   p ← p·(1 - lr·wd) - lr·f·d, f being the matrix's factor. Else it is AdamW.
// g is the reduced gradient times the clip factor, cut at the clip value. A
// step to be skipped leaves everything as it is, whatever the gradients are.
// Where products read another type than the master's, that is written, too.
// Masters of bf16 are rounded at random; those of f32 may lie as the lower
// halves of what products read.
//
// The state may be bf16, rounded at random, or int8 by blocks: then the domain
// is [blocks, 256], what is outside of the piece (another piece's elements, or
// padding) stays as it is but for its block's new scale, and the step itself is
// computed with the moments before they are encoded, as bitsandbytes does.

#include "shardonnx/Codegen/Kernel/OptimizerKernel.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"
#include "shardonnx/Support/ElementType.h"
#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/BlockCodes.h"
#include "shardonnx/runtime/Layout.h"

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
  kScalars,
  kScale0,
  kScale1,
  kPiece
};

namespace {

/// The body of the kernel: block arguments are the slices, then the scalars.
class OptimizerBody {
public:
  OptimizerBody(MLIRContext *context, Location loc,
                const OptimizerTypes &types);

  void build();
  FailureOr<OptimizerKernel> finish();

private:
  // The length of a slice is the runtime's to say; a flat kernel has none.
  static constexpr int64_t kLength = 1 << 20;

  bool blockwise() const { return types.state == SHX_I8; }
  Type typeOf(ShxDType dtype) {
    return typeOfDtype(builder.getContext(), dtype);
  }
  SmallVector<int64_t> domain() const {
    if (blockwise())
      return {kLength / kStateBlock, kStateBlock};
    return {kLength};
  }
  Value addArgument(Type element, ArrayRef<int64_t> shape, unsigned slot,
                    int64_t offset = 0);
  void addMaster();
  void addResult(Value value, ShxDType type, unsigned slot,
                 ArrayRef<int64_t> shape) {
    addResult(value, typeOf(type), slot, shape);
  }
  void addResult(Value value, Type type, unsigned slot,
                 ArrayRef<int64_t> shape);
  Value scalar(ShxScalar scalar) { return scalars[scalar]; }
  // The state before the step, in f32, and what becomes of it.
  Value state(unsigned i);
  void yieldState(unsigned i, Value value);
  void yieldCodes(unsigned i, Value value);
  Value decode(Value code, const BlockCodes &codes);
  Value encode(Value magnitude, const BlockCodes &codes);
  Value entryOf(Value number, const BlockCodes &codes);
  Value numberOf(Value x, const BlockCodes &codes);
  template <typename Op>
  Value extremeOf(ArrayRef<BlockCodes::Line> lines, Value x, Value limit);
  // True at the elements of the piece.
  Value insidePiece();
  // The master, unless the step is skipped.
  void yieldMaster(Value value);
  void buildAdam(Value value, Value gradient);
  void buildSGD(Value value, Value gradient);
  void buildMuonMomentum(Value gradient);
  void buildMuonStep();
  // The gradient as the optimizer takes it.
  Value clippedGradient();
  Value decayed(ShxScalar lr);

  OptimizerTypes types;
  OpBuilder builder;
  nn::NNBuilder b;
  std::unique_ptr<Region> region;
  Block *block;
  Value master, gradient, states[2], scales[2], first, begin, end;
  Value lower;     // of a master in halves
  Value before[2]; // the states, in f32
  SmallVector<Value> scalars;
  Value skips, stays; // a condition: the element is not to be updated
  SmallVector<unsigned> slots, resultSlots;
  SmallVector<MemRefType> buffers, resultBuffers;
  SmallVector<Value> results;
  SmallVector<std::pair<Value, unsigned>> rounded; // a value, its random bits
  SmallVector<Value> ofNumbers;
};

} // namespace

static MemRefType bufferType(Type element, ArrayRef<int64_t> shape,
                             int64_t offset) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * shape[axis];
  auto layout = StridedLayoutAttr::get(element.getContext(), offset, strides);
  return MemRefType::get(shape, element, layout);
}

OptimizerBody::OptimizerBody(MLIRContext *context, Location loc,
                             const OptimizerTypes &types)
    : types(types), builder(context), b(builder, loc),
      region(std::make_unique<Region>()), block(new Block()) {
  region->push_back(block);
  builder.setInsertionPointToEnd(block);
  Type f32 = builder.getF32Type(), i64 = builder.getI64Type();
  bool ofMuon = types.part != OptimizerPart::Elements;
  bool isStep = types.part == OptimizerPart::MuonStep;
  if (types.part != OptimizerPart::MuonMomentum)
    addMaster();
  gradient = addArgument(isStep ? typeOf(SHX_BF16) : f32, domain(), kGradient);
  SmallVector<int64_t> ofBlocks = {domain().front(), 1};
  int count = isStep ? 0 : ofMuon ? 1 : statesOf(types.optimizer);
  for (int i = 0; i < count; ++i) {
    states[i] = addArgument(typeOf(types.state), domain(), kState0 + i);
    if (blockwise())
      scales[i] = addArgument(f32, ofBlocks, kScale0 + i);
  }
  if (isStep)
    scales[0] = addArgument(f32, {1}, kScale0);
  for (unsigned i = 0; i < SHX_NUM_SCALARS; ++i)
    scalars.push_back(addArgument(
        i == SHX_ROUNDING_KEY ? builder.getI32Type() : f32, {1}, kScalars, i));
  first = addArgument(i64, {1}, kPiece, 0);
  begin = addArgument(i64, {1}, kPiece, 1);
  end = addArgument(i64, {1}, kPiece, 2);
}

Value OptimizerBody::addArgument(Type element, ArrayRef<int64_t> shape,
                                 unsigned slot, int64_t offset) {
  slots.push_back(slot);
  buffers.push_back(bufferType(element, shape, offset));
  return block->addArgument(RankedTensorType::get(shape, element), b.loc);
}

void OptimizerBody::addMaster() {
  if (!types.halves) {
    master = addArgument(typeOf(types.master), domain(), kMaster);
    return;
  }
  lower = addArgument(builder.getI16Type(), domain(), kMaster);
  master = b.f32(addArgument(typeOf(types.param), domain(), kParams));
}

void OptimizerBody::addResult(Value value, Type type, unsigned slot,
                              ArrayRef<int64_t> shape) {
  results.push_back(value);
  resultSlots.push_back(slot);
  resultBuffers.push_back(bufferType(type, shape, 0));
}

Value OptimizerBody::insidePiece() {
  Type i32 = builder.getI32Type();
  ArrayRef<int64_t> shape = nn::shapeOf(master);
  Value row = b.mul(b.iota({shape[0], 1}, 0), double(kStateBlock));
  Value lane = nn::IotaOp::create(
      builder, b.loc, RankedTensorType::get({1, kStateBlock}, i32), 1);
  auto inRow = [&](Value place) { return b.cast(b.sub(place, row), i32); };
  Value behind = b.compare(nn::ComparePredicate::ge, lane, inRow(begin));
  Value before = b.compare(nn::ComparePredicate::lt, lane, inRow(end));
  return nn::AndOp::create(builder, b.loc, behind, before);
}

/// The largest (nn.max) or smallest (nn.min) of the lines at x, a number, and
/// of the limit: in pairs, so that none waits for all before it.
template <typename Op>
Value OptimizerBody::extremeOf(ArrayRef<BlockCodes::Line> lines, Value x,
                               Value limit) {
  SmallVector<Value> values = {limit};
  for (const BlockCodes::Line &line : lines)
    values.push_back(b.add(b.mul(x, double(line.slope)), double(line.offset)));
  for (size_t i = 0; i + 1 < values.size(); i += 2) {
    values.push_back(b.binary<Op>(values[i], values[i + 1]));
    ofNumbers.push_back(values.back());
  }
  return values.back();
}

/// Entry `number` of the map, from its place among the magnitudes.
Value OptimizerBody::entryOf(Value number, const BlockCodes &codes) {
  Value value =
      extremeOf<nn::MaxOp>(codes.decode, b.add(number, 0.5), b.constant(0.0));
  ofNumbers.push_back(b.binary<nn::MinOp>(value, b.constant(1.0)));
  return ofNumbers.back();
}

Value OptimizerBody::decode(Value code, const BlockCodes &codes) {
  Value place = b.f32(code);
  if (!codes.hasSigns)
    return entryOf(b.add(place, BlockCodes::kCodeBias + codes.zero), codes);
  place = b.add(place, BlockCodes::kCodeBias + 1 - codes.one);
  Value value = entryOf(b.unary<nn::AbsOp>(place), codes);
  Value isNegative =
      b.compare(nn::ComparePredicate::lt, place, b.constant(0.0));
  return b.select(isNegative, b.unary<nn::NegOp>(value), value);
}

/// The number of the entry nearest to a magnitude, of those from `top` on that
/// of 1, and so of a NaN.
Value OptimizerBody::numberOf(Value x, const BlockCodes &codes) {
  Value one = b.constant(codes.one), top = b.constant(codes.top);
  Value isBelow = b.compare(nn::ComparePredicate::lt, x, top);
  Value least =
      extremeOf<nn::MinOp>(codes.encode, b.select(isBelow, x, top), one);
  return b.select(isBelow, b.unary<nn::FloorOp>(least), one);
}

/// Of a value over its block's scale.
Value OptimizerBody::encode(Value x, const BlockCodes &codes) {
  Value magnitude = codes.hasSigns ? b.unary<nn::AbsOp>(x) : x;
  Value number = numberOf(magnitude, codes);
  if (!codes.hasSigns)
    return b.add(number, -codes.zero - BlockCodes::kCodeBias);
  Value low = b.binary<nn::MinOp>(number, b.constant(codes.one - 1));
  Value limited = b.binary<nn::MaxOp>(low, b.constant(1.0));
  ofNumbers.append({low, limited});
  Value isNegative = b.compare(nn::ComparePredicate::lt, x, b.constant(0.0));
  number = b.select(isNegative, b.unary<nn::NegOp>(limited), number);
  return b.add(number, codes.one - 1 - BlockCodes::kCodeBias);
}

static const BlockCodes &codesOf(unsigned state) {
  return state == 0 ? kSignedCodes : kUnsignedCodes;
}

Value OptimizerBody::state(unsigned i) {
  if (!before[i])
    before[i] = blockwise() ? b.mul(decode(states[i], codesOf(i)), scales[i])
                            : b.f32(states[i]);
  return before[i];
}

void OptimizerBody::yieldState(unsigned i, Value value) {
  if (blockwise())
    return yieldCodes(i, value);
  // What stays has nothing that rounding could cut off.
  value = b.select(stays, state(i), value);
  if (types.state == SHX_BF16)
    rounded.push_back({value, 16 * i});
  addResult(value, types.state, kState0 + i, domain());
}

void OptimizerBody::yieldCodes(unsigned i, Value value) {
  value = b.select(stays, state(i), value);
  Value scale = b.rowMax(i == 0 ? b.unary<nn::AbsOp>(value) : value);
  Value zero = b.constant(0.0);
  Value inverse = b.select(b.compare(nn::ComparePredicate::gt, scale, zero),
                           b.div(b.constant(1.0), scale), zero);
  Value code = encode(b.mul(value, inverse), codesOf(i));
  code = b.cast(code, builder.getI8Type());
  addResult(b.select(skips, states[i], code), SHX_I8, kState0 + i, domain());
  addResult(b.select(skips, scales[i], scale), SHX_F32, kScale0 + i,
            nn::shapeOf(scale));
}

void OptimizerBody::yieldMaster(Value value) {
  value = b.select(stays, b.f32(master), value);
  if (types.master == SHX_BF16)
    rounded.push_back({value, 32});
  addResult(value, types.halves ? builder.getI16Type() : typeOf(types.master),
            kMaster, domain());
  if (types.param != types.master)
    addResult(b.cast(value, typeOf(types.param)), types.param, kParams,
              domain());
}

void OptimizerBody::buildAdam(Value value, Value gradient) {
  Value m = b.add(b.mul(state(0), scalar(SHX_BETA1)),
                  b.mul(gradient, scalar(SHX_ONE_MINUS_BETA1)));
  Value v =
      b.add(b.mul(state(1), scalar(SHX_BETA2)),
            b.mul(b.mul(gradient, gradient), scalar(SHX_ONE_MINUS_BETA2)));
  Value root = b.unary<nn::SqrtOp>(v);
  Value correction = b.unary<nn::SqrtOp>(scalar(SHX_BIAS_CORRECTION2));
  Value denominator = b.add(b.div(root, correction), scalar(SHX_EPS));
  Value step = b.div(scalar(SHX_LR), scalar(SHX_BIAS_CORRECTION1));
  yieldMaster(b.sub(value, b.mul(step, b.div(m, denominator))));
  yieldState(0, m);
  yieldState(1, v);
}

void OptimizerBody::buildSGD(Value value, Value gradient) {
  Value kept = b.add(b.mul(state(0), scalar(SHX_MOMENTUM)), gradient);
  Value isFirst = b.compare(nn::ComparePredicate::ne, scalar(SHX_FIRST_STEP),
                            b.constant(0.0));
  Value momentum = b.select(isFirst, gradient, kept);
  yieldMaster(b.sub(value, b.mul(momentum, scalar(SHX_LR))));
  yieldState(0, momentum);
}

void OptimizerBody::buildMuonMomentum(Value gradient) {
  Value before = state(0);
  Value rest = scalar(SHX_ONE_MINUS_MOMENTUM);
  Value momentum = b.add(before, b.mul(b.sub(gradient, before), rest));
  Value direction = b.add(momentum, b.mul(b.sub(gradient, momentum), rest));
  addResult(b.cast(direction, typeOf(SHX_BF16)), SHX_BF16, kParams, domain());
  yieldState(0, momentum);
}

void OptimizerBody::buildMuonStep() {
  Value lr = b.mul(scalar(SHX_MUON_LR), scales[0]);
  yieldMaster(b.sub(decayed(SHX_MUON_LR), b.mul(b.f32(gradient), lr)));
}

Value OptimizerBody::decayed(ShxScalar lr) {
  return b.mul(b.f32(master),
               b.oneMinus(b.mul(scalar(lr), scalar(SHX_WEIGHT_DECAY))));
}

Value OptimizerBody::clippedGradient() {
  Value limit = scalar(SHX_CLIP_VALUE), least = b.mul(limit, -1.0);
  Value clipped = b.mul(gradient, scalar(SHX_CLIP));
  clipped = b.select(b.compare(nn::ComparePredicate::gt, clipped, limit), limit,
                     clipped);
  return b.select(b.compare(nn::ComparePredicate::lt, clipped, least), least,
                  clipped);
}

void OptimizerBody::build() {
  skips = stays =
      b.compare(nn::ComparePredicate::ne, scalar(SHX_SKIP), b.constant(0.0));
  if (blockwise())
    stays =
        b.select(insidePiece(), stays, b.constant(1.0, builder.getI1Type()));
  if (types.part == OptimizerPart::MuonStep)
    return buildMuonStep();
  Value clipped = clippedGradient();
  if (types.part == OptimizerPart::MuonMomentum)
    return buildMuonMomentum(clipped);
  Value value = b.f32(master);
  if (types.optimizer == Optimizer::AdamW || types.optimizer == Optimizer::Muon)
    value = decayed(SHX_LR);
  else
    clipped = b.add(clipped, b.mul(value, scalar(SHX_WEIGHT_DECAY)));
  if (types.optimizer == Optimizer::SGD)
    buildSGD(value, clipped);
  else
    buildAdam(value, clipped);
}

FailureOr<OptimizerKernel> OptimizerBody::finish() {
  nn::YieldOp::create(builder, b.loc, results);
  llvm::append_range(buffers, resultBuffers);
  llvm::append_range(slots, resultSlots);
  FailureOr<Kernel> kernel =
      Kernel::get(nn::FusedKind::rows, domain(), *block, buffers);
  if (failed(kernel))
    return failure();
  kernel->setSlots(slots);
  kernel->setValueSlot(kPiece);
  if (lower)
    kernel->setLowerHalf(master, cast<BlockArgument>(lower));
  for (auto [value, shift] : rounded)
    kernel->setRounding(value, {cast<BlockArgument>(scalar(SHX_ROUNDING_KEY)),
                                cast<BlockArgument>(first), shift});
  for (Value value : ofNumbers)
    kernel->setOfNumbers(value);
  return OptimizerKernel{std::move(region), std::move(*kernel)};
}

FailureOr<OptimizerKernel>
kernels::buildOptimizerKernel(MLIRContext *context, Location loc,
                              const OptimizerTypes &types) {
  context->loadDialect<nn::NNDialect>();
  OptimizerBody body(context, loc, types);
  body.build();
  return body.finish();
}
