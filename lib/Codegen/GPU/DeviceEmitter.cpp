// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The frame of GPU functions, widths of their accesses, and what threads tell
// each other.

#include "DeviceEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

static constexpr unsigned kGlobalSpace = 1, kSharedSpace = 3;

static unsigned bytesOf(Type elementType) {
  return VectorMemory::storedType(elementType).getIntOrFloatBitWidth() / 8;
}

DeviceAccess::DeviceAccess(const Kernel &kernel, ArrayRef<unsigned> alignments)
    : kernel(kernel) {
  unsigned widest = 4, limit = 8;
  for (auto [i, layout] : llvm::enumerate(kernel.getBuffers())) {
    unsigned bytes = bytesOf(layout.elementType);
    uint64_t base = alignments.empty() ? kAccessBytes : alignments[i];
    base = std::gcd<uint64_t>(base, kAccessBytes);
    base = std::gcd<uint64_t>(base, layout.offset * bytes);
    starts.push_back(std::max<uint64_t>(base, bytes));
    for (int64_t stride : ArrayRef(layout.strides).drop_back())
      base = std::gcd<uint64_t>(base, stride * bytes);
    bases.push_back(std::max<uint64_t>(base, bytes));
    if (layout.strides.back() != 1)
      continue;
    if (bytes <= 2)
      widest = 8;
    if (bases.back() < kAccessBytes)
      limit = std::min(limit, bases.back() / bytes);
  }
  lanes = std::min(widest, limit);
  // Rows are cut into whole vectors; a flat kernel has one odd end.
  if (kernel.getMode() != Kernel::Mode::Flat)
    lanes = std::gcd<int64_t>(lanes, kernel.getRowLength());
}

SmallVector<unsigned> DeviceAccess::alignmentsFor(unsigned width) const {
  SmallVector<unsigned> result;
  for (auto [base, layout] : llvm::zip_equal(bases, kernel.getBuffers()))
    result.push_back(std::gcd(base, width * bytesOf(layout.elementType)));
  return result;
}

unsigned DeviceAccess::bytesPerLane() const {
  unsigned bytes = 0;
  for (unsigned i = 0; i < kernel.getNumInputs(); ++i)
    if (kernel.getBuffers()[i].strides.back() != 0)
      bytes += bytesOf(kernel.getBuffers()[i].elementType);
  return bytes;
}

bool DeviceAccess::isRowOperand(unsigned i) const {
  ArrayRef<int64_t> strides = kernel.getBuffers()[i].strides;
  return strides.back() != 0 &&
         llvm::any_of(strides.drop_back(), [](int64_t s) { return s != 0; });
}

static const KernelTarget &deviceKernelTarget() {
  static const KernelTarget target = [] {
    KernelTarget result;
    result.nativeBF16 = true;
    result.packedPairs = true;
    return result;
  }();
  return target;
}

/// How many parameters the buffers are spread over.
static unsigned countSlots(const Kernel &kernel) {
  unsigned slots = 0;
  for (unsigned i = 0; i < kernel.getBuffers().size(); ++i)
    slots = std::max(slots, kernel.getSlot(i) + 1);
  return slots;
}

/// The members of ShxPiece.
static constexpr unsigned kPieceValues = sizeof(ShxPiece) / sizeof(int64_t);

DeviceEmitter::DeviceEmitter(OpBuilder &b, Location loc, StringRef name,
                             const DeviceAccess &access, int32_t threads,
                             bool hasWorkspace, bool hasCount)
    : b(b), loc(loc), access(access), kernel(access.kernel),
      body(b, loc, kernel, deviceKernelTarget()) {
  MLIRContext *context = b.getContext();
  Type pointer = LLVM::LLVMPointerType::get(context, kGlobalSpace);
  unsigned slots = kernel.getValueSlot().value_or(countSlots(kernel));
  SmallVector<Type> types(slots + hasWorkspace, pointer);
  if (hasCount)
    types.append(kPieceValues, b.getI64Type());
  auto llvmFunction = LLVM::LLVMFuncOp::create(
      b, loc, name,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types));
  function = llvmFunction;
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(),
                    b.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    b.getDenseI32ArrayAttr({threads}));
  Block *entry = llvmFunction.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  Type i32Type = b.getI32Type();
  thread = NVVM::ThreadIdXOp::create(b, loc, i32Type);
  block = NVVM::BlockIdXOp::create(b, loc, i32Type);
  for (auto [i, layout] : llvm::enumerate(kernel.getBuffers())) {
    if (kernel.isByValue(i)) {
      bases.push_back(Value());
      continue;
    }
    Value address = entry->getArgument(kernel.getSlot(i));
    if (layout.offset != 0)
      address = body.getMemory().advance(address, constant(layout.offset), 1,
                                         layout.elementType);
    bases.push_back(address);
  }
  if (hasWorkspace)
    workspace = entry->getArgument(slots);
  if (hasCount) {
    values = entry->getArguments().take_back(kPieceValues);
    count = values.back();
  }
  launch.symbol = name.str();
  launch.blockThreads = threads;
  for (unsigned i = 0; i < types.size(); ++i)
    launch.args.push_back(i);
  steps = kernel.getTensorSteps();
}

FailureOr<DeviceLaunch> DeviceEmitter::finish(int64_t blocks,
                                              int64_t elementsPerBlock) {
  LLVM::ReturnOp::create(b, loc, ValueRange());
  b.setInsertionPointAfter(function);
  launch.blocks = blocks;
  launch.elementsPerBlock = elementsPerBlock;
  expandDeviceMath(function);
  if (failed(convertKernel(cast<LLVM::LLVMFuncOp>(function))))
    return failure();
  return launch;
}

void DeviceEmitter::setParameters(Scope &scalars) {
  for (BlockArgument argument : kernel.getBody().getArguments()) {
    unsigned i = argument.getArgNumber();
    if (kernel.isByValue(i))
      scalars.values[argument] = vector::BroadcastOp::create(
          b, loc, VectorType::get(1, b.getI64Type()),
          values[kernel.getBuffers()[i].offset]);
  }
}

Value DeviceEmitter::i32(int64_t value) {
  return arith::ConstantIntOp::create(b, loc, value, 32);
}

Value DeviceEmitter::index(Value value) {
  if (value.getType().isInteger(64))
    return value;
  return arith::ExtUIOp::create(b, loc, b.getI64Type(), value);
}

static Value constantLike(DeviceEmitter &e, Value like, int64_t value) {
  return like.getType().isInteger(64) ? e.constant(value) : e.i32(value);
}

Value DeviceEmitter::add(Value x, Value y) {
  return arith::AddIOp::create(b, loc, x, y);
}
Value DeviceEmitter::mul(Value x, int64_t y) {
  if (y == 1)
    return x;
  return arith::MulIOp::create(b, loc, x, constantLike(*this, x, y));
}
Value DeviceEmitter::div(Value x, int64_t y) {
  if (y == 1)
    return x;
  return arith::DivUIOp::create(b, loc, x, constantLike(*this, x, y));
}
Value DeviceEmitter::rem(Value x, int64_t y) {
  return arith::RemUIOp::create(b, loc, x, constantLike(*this, x, y));
}
Value DeviceEmitter::less(Value x, Value y) {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, x, y);
}

void DeviceEmitter::when(Value condition, llvm::function_ref<void()> then) {
  if (!condition)
    return then();
  auto branch = scf::IfOp::create(b, loc, condition, /*withElse=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenYield());
  then();
}

SmallVector<Value>
DeviceEmitter::choose(Value condition, llvm::function_ref<Values()> then,
                      llvm::function_ref<Values()> otherwise) {
  auto build = [&](llvm::function_ref<Values()> values) {
    return [&b = b, values](OpBuilder &, Location loc) {
      scf::YieldOp::create(b, loc, values());
    };
  };
  OpBuilder::InsertionGuard guard(b);
  auto branch =
      scf::IfOp::create(b, loc, condition, build(then), build(otherwise));
  return branch.getResults();
}

SmallVector<Value> DeviceEmitter::delinearize(Value row) {
  ArrayRef<int64_t> sizes = kernel.getLeadingSizes();
  SmallVector<Value> indices(sizes.size());
  for (size_t axis = sizes.size(); axis-- > 1;) {
    indices[axis] = index(rem(row, sizes[axis]));
    row = div(row, sizes[axis]);
  }
  if (!sizes.empty())
    indices[0] = index(row);
  return indices;
}

Value DeviceEmitter::combine(Operation *reduction, Value x, Value y) {
  if (isa<nn::ReduceMaxOp>(reduction) || nn::isTensorStep(reduction))
    return arith::MaximumFOp::create(b, loc, x, y);
  return arith::AddFOp::create(b, loc, x, y);
}

Value DeviceEmitter::combineLanes(Operation *reduction, Value vector) {
  int64_t width = cast<VectorType>(vector.getType()).getNumElements();
  SmallVector<Value> lanes;
  for (int64_t lane = 0; lane < width; ++lane)
    lanes.push_back(vector::ExtractOp::create(b, loc, vector, lane));
  // A tree: its depth is what the next shuffle waits for.
  for (; lanes.size() > 1; lanes.resize(llvm::divideCeil(lanes.size(), 2))) {
    size_t half = lanes.size() / 2, kept = lanes.size() - half;
    for (size_t i = 0; i < half; ++i)
      lanes[i] = combine(reduction, lanes[i], lanes[kept + i]);
  }
  return lanes.front();
}

Value DeviceEmitter::identity(Operation *reduction, unsigned width) {
  return initialAccumulator(b, loc, reduction, width);
}

Value DeviceEmitter::combineWarp(Operation *reduction, Value x,
                                 unsigned threads) {
  for (unsigned distance = threads / 2; distance > 0; distance /= 2) {
    Value other =
        NVVM::ShflOp::create(b, loc, x.getType(), i32(-1), x, i32(distance),
                             i32(kWarp - 1), NVVM::ShflKind::bfly, UnitAttr());
    x = combine(reduction, x, other);
  }
  return x;
}

void DeviceEmitter::barrier() { NVVM::BarrierOp::create(b, loc); }

Value DeviceEmitter::sharedArray(int64_t elements, StringRef suffix) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(function);
  auto type = LLVM::LLVMArrayType::get(b.getF32Type(), elements);
  auto global = LLVM::GlobalOp::create(
      b, loc, type, /*isConstant=*/false, LLVM::Linkage::Internal,
      launch.symbol + suffix.str(), Attribute(), kAccessBytes, kSharedSpace);
  b.setInsertionPointToStart(b.createBlock(&global.getInitializerRegion()));
  LLVM::ReturnOp::create(b, loc,
                         ValueRange{LLVM::UndefOp::create(b, loc, type)});
  b.setInsertionPointToStart(&function->getRegion(0).front());
  return LLVM::AddressOfOp::create(b, loc, global);
}

void kernels::registerDeviceDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, cf::ControlFlowDialect,
                  LLVM::LLVMDialect, math::MathDialect, nn::NNDialect,
                  NVVM::NVVMDialect, scf::SCFDialect, vector::VectorDialect>();
}

void kernels::loadDeviceDialects(MLIRContext &context) {
  DialectRegistry registry;
  registerDeviceDialects(registry);
  context.appendDialectRegistry(registry);
  for (StringRef name : registry.getDialectNames())
    context.getOrLoadDialect(name);
}

FailureOr<DeviceLaunches>
kernels::emitDeviceKernel(OpBuilder &builder, Location loc, StringRef name,
                          const Kernel &kernel, const DeviceTarget &target,
                          ArrayRef<unsigned> alignments) {
  loadDeviceDialects(*builder.getContext());
  DeviceAccess access(kernel, alignments);
  if (kernel.getMode() == Kernel::Mode::Columns)
    return emitDeviceColumns(builder, loc, name, access, target);
  if (llvm::any_of(kernel.getBody(),
                   [](Operation &op) { return nn::isReduction(&op); }))
    return emitDeviceRows(builder, loc, name, access, target);
  return emitDeviceElementwise(builder, loc, name, access, target);
}
