// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each exec op is one call of the ABI. The context is spelled by its C struct
// itself: its fields lie at offsetof, as descriptors of library calls are the
// bytes of theirs (RuntimeCall.h).

#include "FunctionLowering.h"

#include "shardonnx/Conversion/ExecToLLVM/ExecToLLVM.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Support/ElementType.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cstddef>

using namespace mlir;
using namespace shardonnx;
using kernels::OptimizerPart;

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

ProgramSymbols::ProgramSymbols(ModuleOp module)
    : module(module), builder(OpBuilder::atBlockBegin(module.getBody())) {
  int64_t index = 0;
  for (auto unit : module.getOps<fsdp::UnitOp>()) {
    units[unit.getSymNameAttr()] = index++;
    paramTypes[unit.getSymNameAttr()] = dtypeOf(unit.getParamDtype());
  }
  for (auto constant : module.getOps<exec::ConstantOp>())
    constants[constant.getSymNameAttr()] = constant;
}

LLVM::GlobalOp ProgramSymbols::bytes(StringRef content, StringRef name,
                                     unsigned alignment) {
  std::string key = name.str() + '\0' + content.str();
  LLVM::GlobalOp &global = globals[key];
  if (global)
    return global;
  auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), content.size());
  std::string unique = ".." + name.str() + "." + std::to_string(globals.size());
  global =
      LLVM::GlobalOp::create(builder, module.getLoc(), type,
                             /*isConstant=*/true, LLVM::Linkage::Internal,
                             unique, builder.getStringAttr(content), alignment);
  return global;
}

LLVM::LLVMFuncOp ProgramSymbols::declare(StringRef name,
                                         LLVM::LLVMFunctionType type) {
  LLVM::LLVMFuncOp &function = functions[name];
  if (!function)
    function = LLVM::LLVMFuncOp::create(builder, module.getLoc(), name, type);
  return function;
}

std::string shardonnx::bytesOf(ElementsAttr value) {
  std::string bytes;
  auto append = [&](auto element) {
    bytes.append(reinterpret_cast<const char *>(&element), sizeof(element));
  };
  Type type = value.getElementType();
  int64_t size = exec::elementBytes(type);
  auto appendInteger = [&](const llvm::APInt &element) {
    uint64_t word = element.getZExtValue();
    bytes.append(reinterpret_cast<const char *>(&word), size_t(size));
  };
  if (type.isF32())
    for (float element : value.getValues<float>())
      append(element);
  else if (isa<FloatType>(type))
    for (const llvm::APFloat &element : value.getValues<llvm::APFloat>())
      appendInteger(element.bitcastToAPInt());
  else
    for (const llvm::APInt &element : value.getValues<llvm::APInt>())
      appendInteger(element);
  return bytes;
}

LLVM::GlobalOp ProgramSymbols::constant(FlatSymbolRefAttr name) {
  exec::ConstantOp op = constants.lookup(name.getAttr());
  return bytes(bytesOf(op.getValue()), name.getValue(), /*alignment=*/64);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

namespace {

class FunctionLowering {
public:
  FunctionLowering(func::FuncOp source, ProgramSymbols &symbols)
      : source(source), symbols(symbols), b(source), loc(source.getLoc()),
        pointer(LLVM::LLVMPointerType::get(source.getContext())) {}

  LogicalResult run(StringRef name);

private:
  void emitEntry();
  LogicalResult lower(Operation &op);
  bool lowerMemory(Operation &op);
  bool lowerUnitOp(Operation &op);
  bool lowerHostCopy(Operation &op);
  void startCopy(StringRef name, int64_t copy, Value buffer, Value host);
  void lower(exec::LaunchOp op);
  void lowerDevice(exec::LaunchOp op);
  void lower(exec::BufferOp op);
  void lower(exec::RuntimeCallOpInterface op);
  bool update(StringRef name, OptimizerPart part, FlatSymbolRefAttr of);

  /// A call of the runtime whose first argument is the context.
  void call(StringRef name, ArrayRef<Value> arguments);
  Value addressOf(LLVM::GlobalOp global) {
    return LLVM::AddressOfOp::create(b, loc, global);
  }
  Value at(Value base, int64_t byteOffset);
  Value field(size_t offset) {
    return LLVM::LoadOp::create(b, loc, pointer, at(context, offset));
  }
  Value i32(int64_t value) {
    return LLVM::ConstantOp::create(b, loc, b.getI32Type(),
                                    b.getI32IntegerAttr(int32_t(value)));
  }
  Value i64(int64_t value) {
    return LLVM::ConstantOp::create(b, loc, b.getI64Type(),
                                    b.getI64IntegerAttr(value));
  }
  Value unit(FlatSymbolRefAttr unit) { return i32(symbols.unitIndex(unit)); }
  /// The address of a buffer; null for none.
  Value ptr(Value buffer) {
    if (!buffer)
      return LLVM::ZeroOp::create(b, loc, pointer);
    return addresses.lookup(buffer);
  }

  func::FuncOp source;
  ProgramSymbols &symbols;
  OpBuilder b;
  Location loc;
  Type pointer;
  Value context, arguments; // of launches: an array of pointers
  Value privateBase, params, grads, inputs, scalars, constants;
  llvm::DenseMap<Value, Value> addresses;
};

} // namespace

Value FunctionLowering::at(Value base, int64_t byteOffset) {
  if (byteOffset == 0)
    return base;
  return LLVM::GEPOp::create(b, loc, pointer, b.getI8Type(), base,
                             ValueRange{i64(byteOffset)});
}

void FunctionLowering::call(StringRef name, ArrayRef<Value> arguments) {
  SmallVector<Value> all = {context};
  llvm::append_range(all, arguments);
  auto types = llvm::to_vector(
      llvm::map_range(all, [](Value value) { return value.getType(); }));
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(b.getContext()), types);
  LLVM::CallOp::create(b, loc, symbols.declare(name, type), all);
}

// The bases do not change while a function runs; what it does not use, LLVM
// drops.
void FunctionLowering::emitEntry() {
  size_t most = 1;
  for (auto launch : source.front().getOps<exec::LaunchOp>())
    most = std::max<size_t>(most, launch.getNumOperands());
  arguments = LLVM::AllocaOp::create(b, loc, pointer, pointer,
                                     i64(int64_t(most)), /*alignment=*/8);
  privateBase = field(offsetof(ShxContext, privateBase));
  params = field(offsetof(ShxContext, params));
  grads = field(offsetof(ShxContext, grads));
  inputs = field(offsetof(ShxContext, inputs));
  scalars = field(offsetof(ShxContext, scalars));
  if (symbols.device)
    constants = field(offsetof(ShxContext, constants));
}

void FunctionLowering::lower(exec::BufferOp op) {
  int64_t offset = op.getOffset();
  auto element = [&](Value table, int64_t index) -> Value {
    return LLVM::LoadOp::create(b, loc, pointer,
                                at(table, index * int64_t(sizeof(void *))));
  };
  Value &address = addresses[op.getBuffer()];
  switch (op.getSpace()) {
  case exec::Space::private_:
    address = at(privateBase, offset);
    return;
  case exec::Space::params:
    address =
        at(element(params, symbols.unitIndex(op.getSymbolAttr())), offset);
    return;
  case exec::Space::gradients:
    address = at(element(grads, symbols.unitIndex(op.getSymbolAttr())), offset);
    return;
  case exec::Space::input:
    address = element(inputs, offset);
    return;
  case exec::Space::scalar:
    address = at(scalars, offset * int64_t(sizeof(float)));
    return;
  case exec::Space::constant:
    if (symbols.device) {
      address =
          at(constants, symbols.constantOffset(op.getSymbolAttr()) + offset);
      return;
    }
    address = at(addressOf(symbols.constant(op.getSymbolAttr())), offset);
    return;
  case exec::Space::host: // only copies reach it, by its offset
    return;
  }
}

bool FunctionLowering::lowerMemory(Operation &op) {
  if (auto buffer = dyn_cast<exec::BufferOp>(op)) {
    lower(buffer);
    return true;
  }
  if (auto view = dyn_cast<exec::ViewOp>(op)) {
    auto type = cast<MemRefType>(view.getType());
    int64_t offset =
        view.getOffset() * exec::elementBytes(type.getElementType());
    addresses[view.getResult()] = at(ptr(view.getSource()), offset);
    return true;
  }
  return false;
}

// Each stage of a kernel takes some of the launch's operands.
void FunctionLowering::lowerDevice(exec::LaunchOp op) {
  auto launches = symbols.device->launches.find(op.getKernel());
  assert(launches != symbols.device->launches.end() && "kernel not lowered");
  for (const kernels::DeviceLaunch &launch : launches->second) {
    for (auto [slot, operand] : llvm::enumerate(launch.args))
      LLVM::StoreOp::create(b, loc, ptr(op->getOperand(operand)),
                            at(arguments, int64_t(slot * sizeof(void *))));
    call("shx_launch_device",
         {addressOf(symbols.deviceKernel(launch)), arguments});
  }
}

// With the kernel that the runtime runs over pieces of the unit's slice.
bool FunctionLowering::update(StringRef name, OptimizerPart part,
                              FlatSymbolRefAttr of) {
  std::string kernel = optimizerKernelName(symbols.paramType(of), part);
  if (symbols.device)
    call((name + "_device").str(),
         {unit(of), addressOf(symbols.deviceKernel(
                        symbols.device->optimizers.lookup(kernel)))});
  else
    call(name, {unit(of), LLVM::AddressOfOp::create(b, loc, pointer, kernel)});
  return true;
}

void FunctionLowering::lower(exec::LaunchOp op) {
  if (symbols.device)
    return lowerDevice(op);
  for (auto [index, buffer] : llvm::enumerate(op.getOperands()))
    LLVM::StoreOp::create(b, loc, ptr(buffer),
                          at(arguments, int64_t(index * sizeof(void *))));
  StringRef kernel = op.getKernel();
  kernels::KernelLaunch launch = symbols.launches.lookup(kernel);
  Value function = LLVM::AddressOfOp::create(b, loc, pointer, kernel);
  std::string name = kernel.str() + '\0';
  call("shx_launch", {function, arguments, i64(launch.count), i64(launch.grain),
                      addressOf(symbols.bytes(name, "name", /*alignment=*/1))});
}

void FunctionLowering::lower(exec::RuntimeCallOpInterface op) {
  SmallVector<Value> arguments;
  for (const exec::CallArgument &argument : op.getCallArguments()) {
    if (auto *buffer = std::get_if<Value>(&argument))
      arguments.push_back(ptr(*buffer));
    else if (auto *constant = std::get_if<exec::ProgramConstant>(&argument))
      arguments.push_back(addressOf(
          symbols.bytes(constant->bytes, constant->name, constant->alignment)));
    else
      arguments.push_back(i64(std::get<int64_t>(argument)));
  }
  call(op.getCallee(), arguments);
}

bool FunctionLowering::lowerUnitOp(Operation &op) {
  return TypeSwitch<Operation *, bool>(&op)
      .Case([&](exec::GatherStartOp op) {
        return call("shx_gather_start", {unit(op.getUnitAttr())}), true;
      })
      .Case([&](exec::GatherWaitOp op) {
        return call("shx_gather_wait", {unit(op.getUnitAttr())}), true;
      })
      .Case([&](exec::GatherFreeOp op) {
        return call("shx_gather_free", {unit(op.getUnitAttr())}), true;
      })
      .Case([&](exec::GatherReshardOp op) {
        return call("shx_gather_reshard", {unit(op.getUnitAttr())}), true;
      })
      .Case([&](exec::GradAcquireOp op) {
        return call("shx_grad_acquire", {unit(op.getUnitAttr())}), true;
      })
      .Case([&](exec::LossOp op) {
        return call("shx_loss", {ptr(op.getSum())}), true;
      })
      .Case([&](exec::ReduceStartOp op) {
        call("shx_reduce_start",
             {unit(op.getUnitAttr()), i32(op.getAccumulate())});
        return true;
      })
      .Case([&](exec::ReduceWaitOp op) {
        return call("shx_reduce_wait", {unit(op.getUnitAttr())}), true;
      })
      .Case([&](exec::ClipGradNormOp) {
        return call("shx_clip_grad_norm", {}), true;
      })
      .Case([&](exec::WeightStepsOp) {
        return call("shx_weight_steps", {}), true;
      })
      .Case([&](exec::OptimizerOp op) {
        return update("shx_optimizer", OptimizerPart::Elements,
                      op.getUnitAttr());
      })
      .Case([&](exec::MuonStartOp op) {
        return update("shx_muon_start", OptimizerPart::MuonMomentum,
                      op.getUnitAttr());
      })
      .Case([&](exec::MuonFinishOp op) {
        return update("shx_muon_finish", OptimizerPart::MuonStep,
                      op.getUnitAttr());
      })
      .Default([](Operation *) { return false; });
}

void FunctionLowering::startCopy(StringRef name, int64_t copy, Value buffer,
                                 Value host) {
  auto place = exec::rootOf(host).getDefiningOp<exec::BufferOp>();
  auto type = cast<MemRefType>(buffer.getType());
  call(name,
       {i64(copy), ptr(buffer), i64(place.getOffset()),
        i64(exec::spanOf(type) * exec::elementBytes(type.getElementType()))});
}

bool FunctionLowering::lowerHostCopy(Operation &op) {
  return TypeSwitch<Operation *, bool>(&op)
      .Case([&](exec::OffloadStartOp op) {
        startCopy("shx_offload_start", op.getCopy(), op.getBuffer(),
                  op.getHost());
        return true;
      })
      .Case([&](exec::OffloadWaitOp op) {
        return call("shx_offload_wait", {i64(op.getCopy())}), true;
      })
      .Case([&](exec::ReloadStartOp op) {
        startCopy("shx_reload_start", op.getCopy(), op.getBuffer(),
                  op.getHost());
        return true;
      })
      .Case([&](exec::ReloadWaitOp op) {
        return call("shx_reload_wait", {i64(op.getCopy())}), true;
      })
      .Default([](Operation *) { return false; });
}

LogicalResult FunctionLowering::lower(Operation &op) {
  loc = op.getLoc();
  if (isa<func::ReturnOp>(op)) {
    LLVM::ReturnOp::create(b, loc, ValueRange());
    return success();
  }
  if (auto call = dyn_cast<exec::RuntimeCallOpInterface>(op)) {
    lower(call);
    return success();
  }
  if (auto launch = dyn_cast<exec::LaunchOp>(op)) {
    lower(launch);
    return success();
  }
  if (lowerMemory(op) || lowerUnitOp(op) || lowerHostCopy(op))
    return success();
  return op.emitOpError("has no lowering: run exec-plan-memory first");
}

LogicalResult FunctionLowering::run(StringRef name) {
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(b.getContext()), {pointer});
  auto function = LLVM::LLVMFuncOp::create(b, loc, name, type);
  // Calls, one after the other: nothing in it is worth optimising, and it is as
  // long as the model is deep.
  function.setOptimizeNone(true);
  function.setNoInline(true);
  b.setInsertionPointToStart(function.addEntryBlock(b));
  context = function.getArgument(0);
  emitEntry();
  for (Operation &op : source.front())
    if (failed(lower(op)))
      return failure();
  source.erase();
  return success();
}

LogicalResult shardonnx::lowerFunction(func::FuncOp function, StringRef name,
                                       ProgramSymbols &symbols) {
  return FunctionLowering(function, symbols).run(name);
}
