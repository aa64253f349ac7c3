// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks the graph in order: nodes of known inputs are computed, the others are
// lowered by the handler of their op type.

#include "Lowering.h"

#include "CausalMask.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Support/Origin.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <utility>

using namespace mlir;

namespace shardonnx {

/// Initializers up to this many elements may be computed with.
static constexpr int64_t maxConstant = int64_t(1) << 22;
/// A matrix or vector larger than this that is not trained stays a parameter.
static constexpr int64_t maxInlined = 8192;

const HandlerTable &getHandlers() {
  static const HandlerTable table = [] {
    HandlerTable all;
    addElementwiseHandlers(all);
    addMathHandlers(all);
    addShapeHandlers(all);
    addGatherHandlers(all);
    addMatmulHandlers(all);
    addAttentionHandlers(all);
    addNormHandlers(all);
    addChannelNormHandlers(all);
    addReduceHandlers(all);
    addRearrangeHandlers(all);
    addEinsumHandlers(all);
    addLossHandlers(all);
    return all;
  }();
  return table;
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

/// Reads the bytes of an initializer that the program's shape depends on.
void Lowering::loadConstant(Entry &entry) {
  onnx::InitializerOp init = entry.initializer;
  auto type = cast<RankedTensorType>(init.getType());
  if (auto value = init.getValue()) {
    entry.constant = HostTensor::fromAttr(cast<DenseElementsAttr>(*value));
    return;
  }
  auto model = module->getAttrOfType<StringAttr>("onnx.model");
  llvm::SmallString<256> path(
      model ? llvm::sys::path::parent_path(model.getValue()) : StringRef());
  llvm::sys::path::append(path, *init.getFile());
  auto buffer = llvm::MemoryBuffer::getFileSlice(path, *init.getLength(),
                                                 *init.getOffset());
  if (!buffer) {
    if (!broken)
      init.emitError() << "constant '" << init.getSymName()
                       << "' shapes the program, but its bytes cannot be read "
                          "from '"
                       << path << "': " << buffer.getError().message();
    broken = true;
    Scalar zero;
    zero.i = 0;
    entry.constant =
        HostTensor::splat(type.getShape(), type.getElementType(), zero);
    return;
  }
  StringRef bytes = (*buffer)->getBuffer();
  // Exporters repeat a mask for each sample of a static batch.
  entry.constant =
      HostTensor::fromBytes(type, ArrayRef<char>(bytes.data(), bytes.size()))
          .collapseUniformAxes();
}

const HostTensor *Lowering::getConstant(Value input) {
  if (!input)
    return nullptr;
  Entry &entry = entryOf(input);
  if (!entry.constant && entry.initializer &&
      !entry.initializer.getTrainable()) {
    auto type = cast<RankedTensorType>(entry.initializer.getType());
    if (type.getNumElements() <= maxConstant)
      loadConstant(entry);
  }
  return entry.constant ? &*entry.constant : nullptr;
}

bool Lowering::getInts(Value input, SmallVectorImpl<int64_t> &values) {
  const HostTensor *tensor = getConstant(input);
  if (!tensor || tensor->isFloat())
    return false;
  values = tensor->flattenInts();
  return true;
}

/// A weight, as a symbol: f32 whatever the file holds, in the layout that the
/// exporting framework gives it.
Value Lowering::getParameter(Entry &entry) {
  if (entry.value)
    return entry.value;
  onnx::InitializerOp init = entry.initializer;
  auto type = cast<RankedTensorType>(init.getType());
  Type stored = type.getElementType();
  SmallVector<int64_t> shape(type.getShape());
  if (init.getTransposed())
    std::swap(shape[0], shape[1]);
  nn::ParameterOp &parameter = parameters[init];
  if (!parameter) {
    OpBuilder atTop = OpBuilder::atBlockEnd(module.getBody());
    Type master = isa<FloatType>(stored) ? Type(builder.getF32Type()) : stored;
    nn::ExternalAttr source;
    if (init.getFile())
      source = nn::ExternalAttr::get(builder.getContext(), init.getFileAttr(),
                                     *init.getOffset(), *init.getLength(),
                                     stored, init.getTransposed());
    parameter = nn::ParameterOp::create(
        atTop, init.getLoc(), init.getSymNameAttr(),
        TypeAttr::get(RankedTensorType::get(shape, master)),
        init.getTrainable() ? atTop.getUnitAttr() : UnitAttr(),
        atTop.getStringAttr(init.getGraphName().value_or(init.getSymName())),
        source);
    if (Attribute names = init->getAttr("onnx.names"))
      parameter->setAttr("nn.names", names);
    if (Attribute addend = init->getAttr("onnx.addend"))
      parameter->setAttr("nn.addend", addend);
  }
  entry.value = nn::GetOp::create(
      builder, init.getLoc(), RankedTensorType::get(shape, stored),
      FlatSymbolRefAttr::get(init.getSymNameAttr()));
  if (init.getTransposed())
    entry.value = transpose(entry.value, {1, 0});
  return entry.value;
}

Value Lowering::materialize(Value input, bool broadcastable) {
  Entry &entry = entryOf(input);
  if (entry.value)
    return entry.value;
  if (onnx::InitializerOp init = entry.initializer) {
    auto type = cast<RankedTensorType>(init.getType());
    bool large = isa<FloatType>(type.getElementType()) && type.getRank() <= 2 &&
                 type.getNumElements() > maxInlined;
    if (large || init.getTrainable())
      return getParameter(entry);
  }
  const HostTensor *tensor = getConstant(input);
  assert(tensor && "an operand is neither a value nor a constant");
  HostTensor copy = *tensor;
  Value compact = constant(copy);
  return broadcastable ? compact : broadcast(compact, copy.getShape());
}

Value Lowering::get(Value input) { return materialize(input, false); }

Value Lowering::getBroadcastable(Value input) {
  return materialize(input, true);
}

ArrayRef<Value> Lowering::getSequence(Value input) {
  return entryOf(input).sequence;
}

ArrayRef<int64_t> Lowering::getShape(Value input) {
  Entry &entry = entryOf(input);
  if (entry.value)
    return shapeOf(entry.value);
  if (entry.constant)
    return entry.constant->getShape();
  return cast<RankedTensorType>(input.getType()).getShape();
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

void Lowering::set(Value output, Value value) { entryOf(output).value = value; }

void Lowering::setConstant(Value output, HostTensor value) {
  entryOf(output).constant = std::move(value);
}

void Lowering::setSequence(Value output, ArrayRef<Value> values) {
  entryOf(output).sequence.assign(values.begin(), values.end());
}

LogicalResult Lowering::unsupported(onnx::NodeOp node, const Twine &why) {
  Refused &entry = refused[node.getOpType()];
  if (entry.count++ == 0)
    entry.why = why.str();
  if (entry.nodes.size() < 3)
    entry.nodes.push_back(getOrigin(node.getLoc()).node.str());
  return failure();
}

/// Lists every op that was refused, each with its count and its first nodes.
LogicalResult Lowering::reportUnsupported() {
  if (refused.empty())
    return success();
  std::string list;
  for (auto &[op, entry] : refused) {
    list += list.empty() ? "" : "; ";
    list += op.str() + " ×" + std::to_string(entry.count) + " (";
    for (auto [i, node] : llvm::enumerate(entry.nodes))
      list += (i ? ", '" : "'") + node + "'";
    list += entry.count > entry.nodes.size() ? ", …)" : ")";
    list += entry.why.empty() ? "" : ": " + entry.why;
  }
  return module.emitError() << "these ONNX ops are not supported: " << list;
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

Value Lowering::reshape(Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  return nn::ReshapeOp::create(
      builder, location, RankedTensorType::get(shape, elementTypeOf(value)),
      value);
}

Value Lowering::transpose(Value value, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> shape;
  for (int64_t axis : permutation)
    shape.push_back(shapeOf(value)[axis]);
  return nn::TransposeOp::create(
      builder, location, RankedTensorType::get(shape, elementTypeOf(value)),
      value, builder.getDenseI64ArrayAttr(permutation));
}

Value Lowering::slice(Value value, unsigned axis, int64_t start, int64_t size) {
  SmallVector<int64_t> sizes(shapeOf(value)), offsets(sizes.size(), 0);
  if (start == 0 && sizes[axis] == size)
    return value;
  sizes[axis] = size;
  offsets[axis] = start;
  return nn::SliceOp::create(builder, location,
                             RankedTensorType::get(sizes, elementTypeOf(value)),
                             value, builder.getDenseI64ArrayAttr(offsets),
                             builder.getDenseI64ArrayAttr(sizes));
}

Value Lowering::broadcast(Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  return nn::BroadcastOp::create(
      builder, location, RankedTensorType::get(shape, elementTypeOf(value)),
      value);
}

Value Lowering::castTo(Value value, Type elementType) {
  if (elementTypeOf(value) == elementType)
    return value;
  return nn::CastOp::create(builder, location,
                            RankedTensorType::get(shapeOf(value), elementType),
                            value);
}

Value Lowering::splat(double value, Type elementType, ArrayRef<int64_t> shape) {
  Scalar scalar;
  if (isa<FloatType>(elementType))
    scalar.f = value;
  else
    scalar.i = static_cast<int64_t>(value);
  return nn::ConstantOp::create(
      builder, location,
      HostTensor::splat(shape, elementType, scalar).toAttr());
}

void Lowering::warnOfIdleDropout(onnx::NodeOp node) {
  if (!std::exchange(warnedOfDropout, true))
    node.emitWarning("Dropout without a training_mode does nothing "
                     "(scaled_dot_product_attention is exported so); "
                     "--dropout=on has it drop, --dropout=off says that it "
                     "should not");
}

Value Lowering::dropout(onnx::NodeOp node, Value value, double ratio) {
  Block *block = builder.getInsertionBlock();
  // Axis 0 of every input of the graph counts samples.
  int64_t samples = 0;
  for (BlockArgument argument : block->getArguments())
    if (samples == 0 && argument != random && !shapeOf(argument).empty())
      samples = shapeOf(argument)[0];
  ArrayRef<int64_t> shape = shapeOf(value);
  if (samples == 0 || shape.empty() || shape[0] % samples != 0) {
    (void)unsupported(node, "axis 0 of what it drops from does not count "
                            "samples, so ranks cannot draw their masks apart; "
                            "--dropout=off leaves dropout out");
    return {};
  }
  Type i64 = builder.getI64Type();
  if (!random)
    random = block->addArgument(RankedTensorType::get({1}, i64), location);
  return nn::DropoutOp::create(builder, location, value.getType(), value,
                               random, builder.getF64FloatAttr(ratio),
                               builder.getI64IntegerAttr(dropouts++),
                               builder.getI64IntegerAttr(samples));
}

/// Size 1 along axes where it is uniform; a causal mask as comparisons.
Value Lowering::constant(const HostTensor &tensor) {
  HostTensor compact = tensor.compact();
  std::optional<CausalTensor> causal = recognizeCausal(compact);
  if (!causal)
    return nn::ConstantOp::create(builder, location, compact.toAttr());
  Value mask =
      buildCausalMask(builder, location, causal->mask, compact.getRank());
  Type element = compact.getElementType();
  if (element.isInteger(1) && causal->visible.i)
    return mask;
  auto value = [&](Scalar scalar) -> Value {
    return nn::ConstantOp::create(
        builder, location, HostTensor::splat({}, element, scalar).toAttr());
  };
  Value visible = value(causal->visible), hidden = value(causal->hidden);
  return nn::SelectOp::create(builder, location, compact.getType(), mask,
                              visible, hidden);
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

/// A node that depends on one that was refused says nothing new, unless its op
/// is unknown.
bool Lowering::isPoisoned(onnx::NodeOp node) {
  return llvm::any_of(node.getInputs(),
                      [&](Value input) { return entryOf(input).failed; });
}

/// Computes a node whose inputs are all known.
bool Lowering::evaluate(onnx::NodeOp node) {
  if (node.getOpType() == "Shape" || node.getOpType() == "Size") {
    ArrayRef<int64_t> shape = getShape(node.getInput(0));
    int64_t rank = static_cast<int64_t>(shape.size()), count = 1;
    SliceBounds bounds =
        clampSlice(node.getInt("start", 0), node.getInt("end", rank), 1, rank);
    for (int64_t dim : shape)
      count *= dim;
    Type i64 = builder.getI64Type();
    setConstant(node->getResult(0),
                node.getOpType() == "Size"
                    ? HostTensor::ints({}, {count}, i64)
                    : HostTensor::ints({bounds.size},
                                       shape.slice(bounds.start, bounds.size),
                                       i64));
    return true;
  }
  Evaluator evaluator = findEvaluator(node.getOpType());
  if (!evaluator)
    return false;
  SmallVector<const HostTensor *> inputs;
  for (auto [i, input] : llvm::enumerate(node.getInputs())) {
    bool needed = !isa<NoneType>(input.getType()) &&
                  !(node.getOpType() == "CastLike" && i == 1);
    inputs.push_back(needed ? getConstant(input) : nullptr);
    if (needed && !inputs.back())
      return false;
  }
  HostOutputs outputs = evaluator(node, inputs);
  if (!outputs || outputs->size() < node->getNumResults())
    return false;
  for (auto [result, value] : llvm::zip(node->getResults(), *outputs))
    setConstant(result, std::move(value));
  return true;
}

/// Whether programs compute with elements of this type.
static bool isOfProgram(Type element) {
  return element.isF32() || element.isF16() || element.isBF16() ||
         element.isSignlessInteger(1) || element.isSignlessInteger(32) ||
         element.isSignlessInteger(64);
}

/// Whether all that a node reads and makes can be in a program. A known scalar
/// can, whatever its type: handlers read it (Dropout's ratio may be f64). A
/// slice of nothing is known, and joining what is known to be empty is nothing.
bool Lowering::isCompilable(onnx::NodeOp node) {
  bool emptyToo = module->hasAttr(kDifferentiateAttr);
  bool joins = emptyToo || node.getOpType() == "Concat";
  bool cuts = emptyToo || node.getOpType() == "Slice";
  for (Value input : node.getInputs()) {
    auto type = dyn_cast<ShapedType>(input.getType());
    if (!type)
      continue;
    ArrayRef<int64_t> shape = getShape(input);
    bool empty = llvm::is_contained(shape, 0);
    if (empty && joins && getConstant(input))
      continue;
    if ((empty && !emptyToo) || (!isOfProgram(type.getElementType()) &&
                                 !(shape.empty() && getConstant(input))))
      return false;
  }
  return llvm::all_of(node.getResultTypes(), [cuts](Type result) {
    auto type = dyn_cast<ShapedType>(result);
    return !type || (isOfProgram(type.getElementType()) &&
                     (cuts || !(type.hasRank() &&
                                llvm::is_contained(type.getShape(), 0))));
  });
}

/// Lowers a node whose inputs are data, at least some.
LogicalResult Lowering::lowerData(onnx::NodeOp node) {
  Handler handler = getHandlers().lookup(node.getOpType());
  if (!handler)
    return unsupported(node, "its inputs are data");
  if (!isCompilable(node))
    return unsupported(node, "of these types or sizes it can be computed only "
                             "where its inputs are known");
  return handler(*this, node);
}

void Lowering::lowerNode(onnx::NodeOp node) {
  location = node.getLoc();
  bool known = !node.getDomain() && isRaisable(node.getOpType());
  bool done = false;
  if (!known)
    (void)unsupported(node);
  else if (!isPoisoned(node))
    done = evaluate(node) || succeeded(lowerData(node));
  if (!done)
    for (Value result : node->getResults())
      entryOf(result).failed = true;
}

/// The executable feeds ones as `attention_mask`, unless the program reads it,
/// and 0…S-1 as `position_ids`.
bool Lowering::bindKnownInput(Value argument, StringRef name) {
  auto type = cast<RankedTensorType>(argument.getType());
  if (!assumeFullMask || type.getRank() != 2)
    return false;
  if (name.ends_with(onnx::kMaskSuffix)) {
    if (module->hasAttr(onnx::kReadMasksAttr))
      return false;
    Scalar scalar;
    if (isa<FloatType>(type.getElementType()))
      scalar.f = 1;
    else
      scalar.i = 1;
    setConstant(argument, HostTensor::splat(type.getShape(),
                                            type.getElementType(), scalar));
    return true;
  }
  if (name != "position_ids" || positionsVary ||
      !isa<IntegerType>(type.getElementType()))
    return false;
  SmallVector<int64_t> positions;
  for (int64_t i = 0; i < type.getShape()[1]; ++i)
    positions.push_back(i);
  setConstant(argument, HostTensor::ints({1, type.getShape()[1]}, positions,
                                         type.getElementType())
                            .broadcast(type.getShape()));
  return true;
}

LogicalResult Lowering::bindArguments(func::FuncOp function, Block &newEntry) {
  for (auto [index, argument] : llvm::enumerate(function.getArguments())) {
    auto name = function.getArgAttrOfType<StringAttr>(index, "onnx.name");
    if (auto known = function.getArgAttrOfType<DenseElementsAttr>(
            index, kInputValueAttr)) {
      setConstant(argument, HostTensor::fromAttr(known));
      continue;
    }
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || !type.hasStaticShape())
      return function.emitError() << "input " << (name ? name.getValue() : "")
                                  << " has no static shape";
    Value value = newEntry.addArgument(type, argument.getLoc());
    boundArguments.push_back(index);
    if (evaluating || !name || !bindKnownInput(argument, name.getValue()))
      set(argument, value);
  }
  return success();
}

/// What the function returns as `output`. Of an output whose value is told as
/// `known` that is a placeholder, for its type may be none that is computed
/// with later.
Value Lowering::returned(Value output, Attribute &known) {
  const HostTensor *value = evaluating ? getConstant(output) : nullptr;
  if (!value || !(value->isSplat() || countOf(value->getShape())))
    return get(output);
  known = value->toAttr();
  return splat(0, builder.getF32Type());
}

/// Masks that the program reads are fed from the data.
static void nameMasks(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto name = function.getArgAttrOfType<StringAttr>(i, nn::kNameAttr);
    if (name && name.getValue().ends_with(onnx::kMaskSuffix))
      function.setArgAttr(i, nn::kKindAttr,
                          StringAttr::get(function.getContext(), "read_mask"));
  }
}

LogicalResult Lowering::finish(func::FuncOp function, Block &newEntry) {
  ValueRange outputs =
      function.getBody().front().getTerminator()->getOperands();
  SmallVector<Attribute> known(outputs.size());
  SmallVector<Value> results;
  for (auto [output, value] : llvm::zip(outputs, known))
    results.push_back(returned(output, value));
  func::ReturnOp::create(builder, function.getLoc(), results);
  if (random)
    random.setType(RankedTensorType::get({dropouts + 1}, builder.getI64Type()));
  auto type = builder.getFunctionType(newEntry.getArgumentTypes(),
                                      ValueRange(results).getTypes());
  auto raised =
      func::FuncOp::create(function.getLoc(), function.getName(), type);
  for (auto [to, from] : llvm::enumerate(boundArguments))
    if (Attribute name = function.getArgAttr(from, "onnx.name"))
      raised.setArgAttr(to, nn::kNameAttr, name);
  for (unsigned i = 0; i < type.getNumResults(); ++i) {
    if (Attribute name = function.getResultAttr(i, "onnx.name"))
      raised.setResultAttr(i, nn::kNameAttr, name);
    if (known[i])
      raised.setResultAttr(i, kOutputValueAttr, known[i]);
  }
  if (module->removeAttr(onnx::kReadMasksAttr))
    nameMasks(raised);
  if (random)
    for (StringRef attr : {nn::kNameAttr, nn::kKindAttr})
      raised.setArgAttr(random.getArgNumber(), attr,
                        builder.getStringAttr("random"));
  raised.getBody().push_back(&newEntry);
  function.erase();
  module.push_back(raised);
  for (auto init :
       llvm::make_early_inc_range(module.getOps<onnx::InitializerOp>()))
    init.erase();
  if (Attribute model = module->removeAttr("onnx.model"))
    module->setAttr("nn.model", model);
  module->removeAttr("onnx.opset");
  module->removeAttr(kEvaluateAttr);
  module->removeAttr(kDifferentiateAttr);
  return success();
}

LogicalResult Lowering::lowerFunction(func::FuncOp function) {
  auto newEntry = std::make_unique<Block>();
  if (failed(bindArguments(function, *newEntry)))
    return failure();
  builder.setInsertionPointToEnd(newEntry.get());
  SymbolTable symbols(module);
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (auto get = dyn_cast<onnx::GetOp>(op)) {
      auto init = symbols.lookup<onnx::InitializerOp>(get.getName());
      if (!init)
        return get.emitOpError("names no initializer");
      entryOf(get.getResult()).initializer = init;
    } else if (auto node = dyn_cast<onnx::NodeOp>(op)) {
      lowerNode(node);
    } else if (!isa<onnx::NoneOp>(op)) {
      return op.emitOpError("is not of the onnx dialect");
    }
  }
  if (broken || failed(reportUnsupported())) {
    newEntry->dropAllReferences();
    for (auto &[init, parameter] : parameters)
      parameter.erase();
    return failure();
  }
  return finish(function, *newEntry.release());
}

LogicalResult Lowering::run() {
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  if (functions.size() != 1 || !functions.front().getBody().hasOneBlock())
    return module.emitError("needs exactly one function of one block");
  return lowerFunction(functions.front());
}

} // namespace shardonnx
