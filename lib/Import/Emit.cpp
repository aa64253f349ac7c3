// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits one `onnx.node` per ONNX node, in the graph's own order, which the
// checker has found to be topological.

#include "Emit.h"

#include "Types.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "shardonnx/Dialect/ONNX/IR/ONNX.h"
#include "shardonnx/Support/Diagnostics.h"
#include "shardonnx/Support/Origin.h"
#include "llvm/Support/FormatVariadic.h"

#include <onnx/onnx_pb.h>

using namespace mlir;

namespace shardonnx {
namespace {

using shardonnx::onnx::GetOp;
using shardonnx::onnx::InitializerOp;
using shardonnx::onnx::NodeOp;
using shardonnx::onnx::NoneOp;

class Emitter {
public:
  Emitter(const ::onnx::GraphProto &graph,
          const std::vector<Initializer> &initializers,
          const Metadata &metadata, StringRef modelPath, int opset,
          MLIRContext &context, Diagnostics &diagnostics)
      : graph(graph), initializers(initializers), metadata(metadata),
        modelPath(modelPath), opset(opset), context(context),
        diagnostics(diagnostics), builder(&context) {}

  OwningOpRef<ModuleOp> run();

private:
  LogicalResult fail(const Twine &why) {
    return diagnostics.error("'" + modelPath + "': " + why);
  }

  LogicalResult readTypes();
  void emitInitializers();
  LogicalResult emitFunction();
  DroppedArguments droppedBy(const ::onnx::NodeProto &node) const;
  LogicalResult emitNode(const ::onnx::NodeProto &node);
  LogicalResult emitReturn(func::FuncOp function);
  FailureOr<Value> lookUp(const std::string &name);
  FailureOr<Attribute> convert(const ::onnx::AttributeProto &attribute);
  std::pair<StringRef, StringRef>
  nameAndPathOf(const ::onnx::NodeProto &node) const;

  const ::onnx::GraphProto &graph;
  const std::vector<Initializer> &initializers;
  const Metadata &metadata;
  StringRef modelPath;
  int opset;
  MLIRContext &context;
  Diagnostics &diagnostics;
  OpBuilder builder;
  ModuleOp module;
  Block *entry = nullptr;
  Value none;
  llvm::StringMap<Type> types;
  llvm::StringMap<Value> values;
  llvm::StringMap<const Initializer *> byName;
};

OwningOpRef<ModuleOp> Emitter::run() {
  Location loc = FileLineColLoc::get(&context, modelPath, 0, 0);
  OwningOpRef<ModuleOp> owner = ModuleOp::create(loc);
  module = *owner;
  module->setAttr("onnx.model", builder.getStringAttr(modelPath));
  module->setAttr("onnx.opset", builder.getI64IntegerAttr(opset));
  builder.setInsertionPointToEnd(module.getBody());
  if (failed(readTypes()))
    return {};
  emitInitializers();
  if (failed(emitFunction()))
    return {};
  return owner;
}

LogicalResult Emitter::readTypes() {
  for (const auto *list :
       {&graph.value_info(), &graph.output(), &graph.input()})
    for (const ::onnx::ValueInfoProto &info : *list) {
      Type type = convertType(info.type(), &context);
      if (!type)
        continue;
      if (isTooLarge(type))
        return fail("'" + info.name() +
                    "' has more elements than any memory holds: " +
                    llvm::formatv("{0}", type).str());
      types[info.name()] = type;
    }
  return success();
}

void Emitter::emitInitializers() {
  for (const Initializer &init : initializers) {
    byName[init.name] = &init;
    Location loc = makeOriginLoc(&context, init.name, "Initializer",
                                 modulePath(init.symbol));
    OperationState state(loc, InitializerOp::getOperationName());
    auto op = InitializerOp::create(
        builder, loc, builder.getStringAttr(init.symbol),
        TypeAttr::get(init.type), StringAttr(), IntegerAttr(), IntegerAttr(),
        init.value, StringAttr(), UnitAttr(), UnitAttr(), ArrayAttr(),
        FloatAttr());
    if (!init.value) {
      op.setFile(init.file);
      op.setOffset(init.offset);
      op.setLength(init.length);
    }
    if (init.symbol != init.name)
      op.setGraphName(init.name);
    op.setTrainable(init.trainable);
    op.setTransposed(init.transposed);
    if (init.addend != 0)
      op.setAddendAttr(builder.getF32FloatAttr(init.addend));
    if (!init.names.empty()) {
      SmallVector<StringRef> names(init.names.begin(), init.names.end());
      op.setNamesAttr(builder.getStrArrayAttr(names));
    }
  }
}

LogicalResult Emitter::emitFunction() {
  SmallVector<Type> argTypes;
  SmallVector<const ::onnx::ValueInfoProto *> args;
  for (const auto &input : graph.input()) {
    if (byName.contains(input.name()))
      continue;
    args.push_back(&input);
    argTypes.push_back(types[input.name()]);
  }
  auto function =
      func::FuncOp::create(builder, module.getLoc(), "forward",
                           builder.getFunctionType(argTypes, TypeRange()));
  entry = function.addEntryBlock();
  for (auto [index, input] : llvm::enumerate(args)) {
    function.setArgAttr(index, "onnx.name",
                        builder.getStringAttr(input->name()));
    values[input->name()] = entry->getArgument(index);
  }
  builder.setInsertionPointToEnd(entry);
  for (const ::onnx::NodeProto &node : graph.node())
    if (failed(emitNode(node)))
      return failure();
  return emitReturn(function);
}

std::pair<StringRef, StringRef>
Emitter::nameAndPathOf(const ::onnx::NodeProto &node) const {
  StringRef name = node.name(), path;
  for (const std::string &output : node.output()) {
    auto info = metadata.nodes.find(output);
    if (info == metadata.nodes.end())
      continue;
    path = info->second.path;
    if (name.empty())
      name = info->second.node;
  }
  if (name.empty() && node.output_size() > 0)
    name = node.output(0);
  return {name, path};
}

FailureOr<Value> Emitter::lookUp(const std::string &name) {
  OpBuilder::InsertionGuard guard(builder);
  if (name.empty()) {
    if (!none) {
      builder.setInsertionPointToStart(entry);
      none = NoneOp::create(builder, module.getLoc());
    }
    return none;
  }
  auto known = values.find(name);
  if (known != values.end())
    return known->second;
  auto init = byName.find(name);
  if (init == byName.end())
    return fail("'" + name + "' is used before it is computed");
  Location loc = makeOriginLoc(&context, name, "Initializer",
                               modulePath(init->second->symbol));
  Value value =
      GetOp::create(builder, loc, init->second->type,
                    FlatSymbolRefAttr::get(&context, init->second->symbol));
  values[name] = value;
  return value;
}

/// What the trace says; of an embedding that was not traced, what the module's
/// author says of its table.
DroppedArguments Emitter::droppedBy(const ::onnx::NodeProto &node) const {
  const NodeInfo &info = metadata.infoOf(node);
  DroppedArguments dropped = info.dropped;
  if (!info.target.empty() || node.op_type() != "Gather" ||
      node.input_size() == 0)
    return dropped;
  if (const Initializer *table = byName.lookup(node.input(0))) {
    dropped.paddingIndex = table->paddingIndex;
    if (const ModuleParameter *known = metadata.findParameter(table->symbol))
      dropped.paddingIndex = known->paddingIndex;
  }
  return dropped;
}

LogicalResult Emitter::emitNode(const ::onnx::NodeProto &node) {
  SmallVector<Value> operands;
  for (const std::string &input : node.input()) {
    FailureOr<Value> value = lookUp(input);
    if (failed(value))
      return failure();
    operands.push_back(*value);
  }
  int outputs = node.output_size();
  while (outputs > 0 && node.output(outputs - 1).empty())
    --outputs;
  SmallVector<Type> resultTypes;
  for (int i = 0; i < outputs; ++i) {
    auto type = types.find(node.output(i));
    if (type == types.end() && !node.output(i).empty())
      return fail("node '" + nameAndPathOf(node).first + "' (" +
                  node.op_type() + "): the type of its output '" +
                  node.output(i) + "' cannot be inferred");
    resultTypes.push_back(type == types.end() ? Type(UnrankedTensorType::get(
                                                    builder.getF32Type()))
                                              : type->second);
  }
  NamedAttrList attrs;
  for (const ::onnx::AttributeProto &attribute : node.attribute()) {
    FailureOr<Attribute> value = convert(attribute);
    if (failed(value))
      return fail("node '" + nameAndPathOf(node).first + "' (" +
                  node.op_type() + "): attribute '" + attribute.name() +
                  "' has a type that is not supported");
    attrs.append(attribute.name(), *value);
  }
  droppedBy(node).addTo(attrs, builder);
  auto [name, path] = nameAndPathOf(node);
  auto op = NodeOp::create(
      builder, makeOriginLoc(&context, name, node.op_type(), path), resultTypes,
      builder.getStringAttr(node.op_type()), operands,
      node.domain().empty() ? StringAttr()
                            : builder.getStringAttr(node.domain()),
      attrs.getDictionary(&context),
      path.empty() ? StringAttr() : builder.getStringAttr(path));
  for (int i = 0; i < outputs; ++i)
    if (!node.output(i).empty())
      values[node.output(i)] = op->getResult(i);
  return success();
}

FailureOr<Attribute> Emitter::convert(const ::onnx::AttributeProto &a) {
  switch (a.type()) {
  case ::onnx::AttributeProto::FLOAT:
    return Attribute(builder.getF32FloatAttr(a.f()));
  case ::onnx::AttributeProto::INT:
    return Attribute(builder.getI64IntegerAttr(a.i()));
  case ::onnx::AttributeProto::STRING:
    return Attribute(builder.getStringAttr(a.s()));
  case ::onnx::AttributeProto::FLOATS:
    return Attribute(builder.getDenseF32ArrayAttr(
        SmallVector<float>(a.floats().begin(), a.floats().end())));
  case ::onnx::AttributeProto::INTS:
    return Attribute(builder.getDenseI64ArrayAttr(
        SmallVector<int64_t>(a.ints().begin(), a.ints().end())));
  case ::onnx::AttributeProto::STRINGS: {
    SmallVector<Attribute> items;
    for (const std::string &item : a.strings())
      items.push_back(builder.getStringAttr(item));
    return Attribute(builder.getArrayAttr(items));
  }
  case ::onnx::AttributeProto::TENSOR:
    if (DenseElementsAttr value = convertTensor(a.t(), &context))
      return Attribute(value);
    return failure();
  default:
    return failure();
  }
}

LogicalResult Emitter::emitReturn(func::FuncOp function) {
  SmallVector<Value> results;
  for (const auto &output : graph.output()) {
    FailureOr<Value> value = lookUp(output.name());
    if (failed(value))
      return failure();
    results.push_back(*value);
  }
  func::ReturnOp::create(builder, module.getLoc(), results);
  function.setType(builder.getFunctionType(function.getArgumentTypes(),
                                           ValueRange(results).getTypes()));
  for (auto [index, output] : llvm::enumerate(graph.output()))
    function.setResultAttr(index, "onnx.name",
                           builder.getStringAttr(output.name()));
  return success();
}

} // namespace

OwningOpRef<ModuleOp> emitModule(const ::onnx::GraphProto &graph,
                                 const std::vector<Initializer> &initializers,
                                 const Metadata &metadata, StringRef modelPath,
                                 int opset, MLIRContext &context,
                                 Diagnostics &diagnostics) {
  return Emitter(graph, initializers, metadata, modelPath, opset, context,
                 diagnostics)
      .run();
}

} // namespace shardonnx
