// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Outlines the bodies of nn.fused, equal ones once.

#include "KernelCache.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace shardonnx;

KernelCache::KernelCache(ModuleOp module)
    : module(module), builder(module.getContext()), symbols(module) {}

// Kernels and constants stand before the functions that name them, in the
// order in which they were made.
template <typename OpT> FlatSymbolRefAttr KernelCache::insert(OpT op) {
  Block::iterator where = module.getBody()->begin();
  if (last)
    where = std::next(Block::iterator(last));
  else
    while (where != module.getBody()->end() && !isa<func::FuncOp>(*where))
      ++where;
  symbols.insert(op, where);
  last = op;
  return FlatSymbolRefAttr::get(op.getSymNameAttr());
}

template <typename T> static uintptr_t wordOf(T uniqued) {
  return reinterpret_cast<uintptr_t>(uniqued.getAsOpaquePointer());
}

// All that the generated code depends on: types, attributes and properties are
// uniqued in the context, so their addresses say whether they are equal.
// Ops of a body have no place of their own in the step.
static std::vector<uintptr_t> keyOf(nn::FusedOp fused, ArrayRef<Type> types) {
  std::vector<uintptr_t> key;
  key.push_back(uintptr_t(fused.getKind()));
  for (int64_t size : fused.getDomain())
    key.push_back(uintptr_t(size));
  key.push_back(0);
  for (Type type : types)
    key.push_back(wordOf(type));
  llvm::DenseMap<Value, unsigned> numbers;
  Block &body = fused.getBody().front();
  for (BlockArgument argument : body.getArguments())
    numbers.insert({argument, unsigned(numbers.size())});
  for (Operation &op : body) {
    key.push_back(wordOf(op.getName()));
    key.push_back(op.getNumOperands());
    for (Value operand : op.getOperands())
      key.push_back(numbers.lookup(operand));
    key.push_back(wordOf(op.getPropertiesAsAttribute()));
    for (Value result : op.getResults()) {
      key.push_back(wordOf(result.getType()));
      numbers.insert({result, unsigned(numbers.size())});
    }
  }
  return key;
}

// Words for traces: the first few kinds of ops in the body.
static std::string nameOf(nn::FusedOp fused) {
  llvm::SmallSetVector<StringRef, 4> kinds;
  for (Operation &op : fused.getBody().front().without_terminator())
    if (kinds.size() < 3 && !isa<nn::ConstantOp, nn::CastOp>(op))
      kinds.insert(op.getName().stripDialect());
  std::string name = nn::stringifyFusedKind(fused.getKind()).str();
  for (StringRef kind : kinds)
    name += "_" + kind.str();
  return name;
}

FlatSymbolRefAttr KernelCache::kernel(nn::FusedOp fused, ArrayRef<Type> types) {
  FlatSymbolRefAttr &symbol = kernels[keyOf(fused, types)];
  if (symbol)
    return symbol;
  SmallVector<Attribute> typeAttrs;
  for (Type type : types)
    typeAttrs.push_back(TypeAttr::get(type));
  auto kernel = exec::KernelOp::create(
      builder, fused.getLoc(), nameOf(fused), fused.getKindAttr(),
      fused.getDomainAttr(), builder.getArrayAttr(typeAttrs));
  IRMapping mapping;
  fused.getBody().cloneInto(&kernel.getBody(), mapping);
  symbol = insert(kernel);
  return symbol;
}

FlatSymbolRefAttr KernelCache::constant(Location loc, ElementsAttr value) {
  FlatSymbolRefAttr &symbol = constants[value];
  if (symbol)
    return symbol;
  auto constant = exec::ConstantOp::create(builder, loc, "constant", value);
  symbol = insert(constant);
  return symbol;
}
