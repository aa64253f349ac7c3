// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Storage of values, views, parameters and collectives. What moves elements is
// in EmitCopies.cpp; library calls emit themselves.

#include "Emitter.h"

#include "shardonnx/Dialect/Exec/Transforms/Launches.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"
#include "shardonnx/runtime/ABI.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

Emitter::Emitter(func::FuncOp function, const ParameterPlaces &parameters,
                 KernelCache &kernels, const CallOptions &calls,
                 MutableArrayRef<InputUse> inputs)
    : CallEmitter(OpBuilder(function), function.getLoc(), calls),
      function(function), parameters(parameters), kernels(kernels),
      inputs(inputs), placement(function, parameters, !calls.deterministic,
                                &calls.libraries == &cpuLibraries()) {}

//===----------------------------------------------------------------------===//
// Storage
//===----------------------------------------------------------------------===//

Storage Emitter::resultStorage(Value value) {
  const Storage *placed = placement.find(value);
  Storage storage = placed ? *placed : placement.allocate(value);
  storages[value] = storage;
  return storage;
}

Value Emitter::bufferOf(const Storage &storage) {
  Root &root = *storage.root;
  if (!root.value) {
    auto type = MemRefType::get(root.shape, root.elementType);
    if (root.space == exec::Space::private_)
      root.value = exec::AllocOp::create(builder, loc, type);
    else
      root.value = exec::BufferOp::create(builder, loc, type, root.space,
                                          root.symbol, root.offset);
  }
  MemRefType type = exec::stridedMemRef(
      storage.layout.shape, storage.layout.strides, root.elementType);
  if (storage.layout.offset == 0 && type == root.value.getType())
    return root.value;
  Value &view =
      views[{&root, storage.layout.offset, type.getAsOpaquePointer()}];
  if (!view)
    view = exec::ViewOp::create(builder, loc, type, root.value,
                                storage.layout.offset);
  return view;
}

Storage Emitter::copyOf(const Storage &source) {
  Root root;
  root.shape = source.layout.shape;
  root.elementType = source.root->elementType;
  Storage target = {placement.newRoot(std::move(root)),
                    Layout::rowMajor(source.layout.shape)};
  copy(source, target);
  return target;
}

Storage Emitter::contiguous(Value value) {
  Storage storage = storageOf(value);
  if (storage.layout.isContiguous())
    return storage;
  auto [copied, isNew] = copies.try_emplace(value);
  if (isNew)
    copied->second = copyOf(storage);
  return copied->second;
}

void InputUse::add(const nn::IdUse &use) {
  if (use.partial)
    partLimit = std::max(partLimit, use.limit);
  else
    wholeLimit = wholeLimit ? std::min(wholeLimit, use.limit) : use.limit;
  if (!use.ignored) {
    tokens = true;
    return;
  }
  ignored = use.ignored;
  shifted |= use.shifted;
}

// Remembers that a graph input holds ids of a table or of classes.
void Emitter::useIds(Value ids, int64_t limit, std::optional<int64_t> ignored) {
  std::optional<nn::IdSource> source = nn::sourceOfIds(ids);
  if (!source)
    return;
  source->use.limit = limit;
  source->use.ignored = ignored;
  inputs[source->argument.getArgNumber()].add(source->use);
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

void Emitter::emitView(Operation &op) {
  Value operand = op.getOperand(0), result = op.getResult(0);
  Storage storage = storageOf(operand);
  ArrayRef<int64_t> shape = nn::shapeOf(result);
  if (isa<nn::ReshapeOp>(op)) {
    std::optional<Layout> layout = storage.layout.reshape(shape);
    if (!layout) {
      storage = contiguous(operand);
      layout = storage.layout.reshape(shape);
    }
    storage.layout = *layout;
  } else if (auto transpose = dyn_cast<nn::TransposeOp>(op)) {
    storage.layout = storage.layout.transpose(transpose.getPermutation());
  } else if (auto slice = dyn_cast<nn::SliceOp>(op)) {
    storage.layout = storage.layout.slice(slice.getOffsets(), slice.getSizes());
  } else {
    storage.layout = storage.layout.broadcast(shape);
  }
  storages[result] = storage;
}

//===----------------------------------------------------------------------===//
// Constants, parameters, scalars
//===----------------------------------------------------------------------===//

// One element stands for many that are equal: they would be in the executable
// one by one.
void Emitter::addConstant(Value value, ElementsAttr bytes) {
  constexpr int64_t kMostEqual = 4096;
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  Root root;
  root.shape.assign(shape.begin(), shape.end());
  auto dense = dyn_cast<DenseElementsAttr>(bytes);
  if (dense && dense.isSplat() && dense.getNumElements() > kMostEqual) {
    root.shape.assign(shape.size(), 1);
    bytes = dense.resizeSplat(dense.getType().clone(root.shape));
  }
  root.space = exec::Space::constant;
  root.symbol = kernels.constant(loc, bytes);
  root.elementType = nn::elementType(value);
  Layout layout = Layout::rowMajor(root.shape).broadcast(shape);
  storages[value] = {placement.newRoot(std::move(root)), layout};
}

// What the runtime has put at a place among a step's scalars.
void Emitter::addScalar(Value value, int64_t place) {
  Root root;
  root.space = exec::Space::scalar;
  root.offset = place;
  root.shape.assign(nn::shapeOf(value).begin(), nn::shapeOf(value).end());
  root.elementType = builder.getF32Type();
  storages[value] = {placement.newRoot(std::move(root)),
                     Layout::rowMajor(nn::shapeOf(value))};
}

static std::pair<DenseElementsAttr, DenseElementsAttr>
rotaryTable(nn::RotaryTableOp op) {
  std::vector<float> cos, sin;
  double scaling = op.getScaling().convertToFloat();
  for (int64_t position = 0; position < int64_t(op.getLength()); ++position)
    for (float frequency : op.getInvFreq()) {
      // The angle is rounded to f32, as every exporter's graph does.
      double angle = float(position) * frequency;
      cos.push_back(float(std::cos(angle) * scaling));
      sin.push_back(float(std::sin(angle) * scaling));
    }
  auto type = cast<RankedTensorType>(op.getCos().getType());
  return {DenseElementsAttr::get(type, ArrayRef<float>(cos)),
          DenseElementsAttr::get(type, ArrayRef<float>(sin))};
}

static DenseElementsAttr iotaElements(nn::IotaOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  Layout layout = Layout::rowMajor(type.getShape());
  int64_t stride = layout.strides[op.getAxis()];
  int64_t size = layout.shape[op.getAxis()];
  Builder builder(op.getContext());
  std::vector<Attribute> values;
  for (int64_t i = 0; i < layout.numElements(); ++i) {
    int64_t index = i / stride % size;
    if (isa<FloatType>(type.getElementType()))
      values.push_back(
          builder.getFloatAttr(type.getElementType(), double(index)));
    else
      values.push_back(builder.getIntegerAttr(type.getElementType(), index));
  }
  return DenseElementsAttr::get(type, values);
}

// What is returned goes where the caller has made room for it.
void Emitter::emit(func::ReturnOp op) {
  for (auto [index, value] : llvm::enumerate(op.getOperands())) {
    if (cast<RankedTensorType>(value.getType()).getNumElements() == 0)
      continue;
    copyUnlessThere(storageOf(value), placement.outputOf(op, index));
  }
  func::ReturnOp::create(builder, loc);
}

// Ops whose result is there without computing it.
bool Emitter::emitLeaf(Operation &op) {
  if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
    addConstant(constant.getResult(), constant.getValue());
  } else if (auto table = dyn_cast<nn::RotaryTableOp>(op)) {
    auto [cos, sin] = rotaryTable(table);
    addConstant(table.getCos(), cos);
    addConstant(table.getSin(), sin);
  } else if (auto iota = dyn_cast<nn::IotaOp>(op)) {
    addConstant(iota.getResult(), iotaElements(iota));
  } else if (auto scale = dyn_cast<nn::LossScaleOp>(op)) {
    addScalar(scale.getResult(), SHX_LOSS_SCALE);
  } else if (auto step = dyn_cast<nn::F8WeightStepOp>(op)) {
    addScalar(step.getResult(),
              SHX_NUM_SCALARS + SHX_STEP_STRIDE * int64_t(*step.getIndex()));
  } else {
    return false;
  }
  return true;
}

void Emitter::emit(fsdp::ViewOp op) {
  ParameterPlace place = parameters.lookup(op.getParameterAttr().getAttr());
  Root *&root = parameterRoots[op.getParameterAttr()];
  if (!root) {
    Root made;
    made.space = exec::Space::params;
    made.symbol = FlatSymbolRefAttr::get(place.unit.getSymNameAttr());
    made.elementType = nn::elementType(op.getResult());
    made.offset = place.offset * exec::elementBytes(place.unit.getParamDtype());
    made.shape.assign(nn::shapeOf(op.getResult()).begin(),
                      nn::shapeOf(op.getResult()).end());
    root = placement.newRoot(std::move(made));
  }
  storages[op.getResult()] = {root,
                              Layout::rowMajor(nn::shapeOf(op.getResult()))};
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

void Emitter::emit(fsdp::ReduceStartOp op) {
  for (auto [index, gradient] : llvm::enumerate(op.getGradients()))
    copyUnlessThere(storageOf(gradient), placement.gradientOf(op, index),
                    op.getAccumulateUnsharded());
  exec::ReduceStartOp::create(builder, loc, op.getUnitAttr(),
                              op.getAccumulateAttr());
}

LogicalResult Emitter::emitUnitOp(Operation &op) {
  return TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](fsdp::AllGatherStartOp op) {
        exec::GatherStartOp::create(builder, loc, op.getUnitAttr());
        return success();
      })
      .Case([&](fsdp::AllGatherWaitOp op) {
        exec::GatherWaitOp::create(builder, loc, op.getUnitAttr());
        return success();
      })
      .Case([&](fsdp::FreeOp op) {
        FlatSymbolRefAttr unit = fsdp::getGatheredUnit(op.getGathered());
        if (op.getReshard())
          exec::GatherReshardOp::create(builder, loc, unit);
        else
          exec::GatherFreeOp::create(builder, loc, unit);
        return success();
      })
      .Case([&](fsdp::GradAcquireOp op) {
        exec::GradAcquireOp::create(builder, loc, op.getUnitAttr());
        return success();
      })
      .Case([&](fsdp::ReduceStartOp op) {
        emit(op);
        return success();
      })
      .Case([&](fsdp::ReduceWaitOp op) {
        exec::ReduceWaitOp::create(builder, loc, op.getUnitAttr());
        return success();
      })
      .Case([&](fsdp::ClipGradNormOp) {
        exec::ClipGradNormOp::create(builder, loc);
        return success();
      })
      .Case([&](fsdp::WeightStepsOp) {
        exec::WeightStepsOp::create(builder, loc);
        return success();
      })
      .Case([&](fsdp::OptimizerOp op) {
        exec::OptimizerOp::create(builder, loc, op.getUnitAttr());
        return success();
      })
      .Case([&](fsdp::MuonStartOp op) {
        exec::MuonStartOp::create(builder, loc, op.getUnitAttr());
        return success();
      })
      .Case([&](fsdp::MuonFinishOp op) {
        exec::MuonFinishOp::create(builder, loc, op.getUnitAttr());
        return success();
      })
      .Case([&](fsdp::ViewOp op) {
        emit(op);
        return success();
      })
      .Default([&](Operation *op) {
        return op->emitOpError("is not asynchronous: run fsdp-schedule first");
      });
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

void Emitter::emit(nn::FusedOp op) {
  if (op.getOutputs().size() == 1 && placement.isSum(op.getOutputs()[0])) {
    resultStorage(op.getOutputs()[0]);
    return;
  }
  SmallVector<Value> ins, outs;
  SmallVector<Type> types;
  for (Value input : op.getInputs())
    ins.push_back(buffer(input));
  for (Value output : op.getOutputs())
    outs.push_back(resultBuffer(output));
  for (Value operand : llvm::concat<Value>(ins, outs))
    types.push_back(operand.getType());
  exec::LaunchOp::create(builder, loc, kernels.kernel(op, types), ins, outs,
                         Value());
}

void Emitter::emit(nn::LossOp op) {
  exec::LossOp::create(builder, loc, contiguousBuffer(op.getSum()),
                       op.getDenominatorAttr(), op.getDenominatorArgAttr(),
                       op.getShiftAttr(), op.getCountAttr());
}

/// Steps of whole tensors, which blocks of threads join as they find them, lie
/// SHX_STEP_STRIDE apart and are zero when the function begins: one call for
/// all.
void Emitter::clearSteps() {
  SmallVector<Value> steps;
  for (auto fused : function.front().getOps<nn::FusedOp>())
    for (auto [output, yielded] : llvm::zip_equal(
             fused.getOutputs(),
             fused.getBody().front().getTerminator()->getOperands()))
      if (Operation *op = yielded.getDefiningOp(); op && nn::isTensorStep(op))
        steps.push_back(output);
  if (steps.empty())
    return;
  Root root;
  root.shape = {int64_t(steps.size()) * SHX_STEP_STRIDE};
  root.elementType = builder.getF32Type();
  Layout layout = Layout::rowMajor(root.shape);
  Storage all = {placement.newRoot(std::move(root)), layout};
  for (auto [i, step] : llvm::enumerate(steps))
    placement.put(
        step, {all.root, layout.slice({int64_t(i) * SHX_STEP_STRIDE}, {1})});
  loc = exec::withPlace(steps.front().getDefiningOp());
  exec::ZeroOp::create(builder, loc, bufferOf(all));
}

LogicalResult Emitter::emit(Operation &op) {
  loc = exec::withPlace(&op);
  if (isa<fsdp::FSDPDialect>(op.getDialect()))
    return emitUnitOp(op);
  if (emitLeaf(op))
    return success();
  if (auto parts = dyn_cast<nn::DecomposableOpInterface>(op);
      parts && parts.isComposite())
    return op.emitOpError("is not taken apart: run nn-decompose first");
  return TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](LibraryCallOpInterface call) {
        call.emitCall(*this);
        return success();
      })
      .Case<nn::ReshapeOp, nn::TransposeOp, nn::SliceOp, nn::BroadcastOp>(
          [&](Operation *view) {
            emitView(*view);
            return success();
          })
      .Case<nn::FusedOp, nn::ConcatOp, nn::PadOp, nn::WindowsOp,
            nn::OverlapAddOp, nn::LossOp, func::ReturnOp>([&](auto other) {
        emit(other);
        return success();
      })
      .Default([](Operation *other) {
        return other->emitOpError("is in no kernel: run the fusion first");
      });
}

LogicalResult Emitter::run() {
  if (failed(placement.run()))
    return failure();
  for (BlockArgument argument : function.getArguments()) {
    Root root;
    root.space = exec::Space::input;
    root.offset = argument.getArgNumber();
    root.shape.assign(nn::shapeOf(argument).begin(),
                      nn::shapeOf(argument).end());
    root.elementType = nn::elementType(argument);
    storages[argument] = {placement.newRoot(std::move(root)),
                          Layout::rowMajor(nn::shapeOf(argument))};
  }
  auto emitted =
      func::FuncOp::create(builder, function.getLoc(), function.getSymName(),
                           builder.getFunctionType({}, {}));
  builder.setInsertionPointToEnd(emitted.addEntryBlock());
  clearSteps();
  for (Operation &op : function.front())
    if (failed(emit(op)))
      return failure();
  function.erase();
  return success();
}
