// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See PartitionPlan.h.

#include "PartitionPlan.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/runtime/MeshABI.h"

#include <cmath>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

PartitionPlan::PartitionPlan(Block &block, int64_t parts)
    : block(block), parts(parts) {}

const ShardingQuery *PartitionPlan::queryOf(Operation *op) const {
  auto found = queries.find(op);
  return found == queries.end() ? nullptr : &found->second;
}

Sharding PartitionPlan::shardingOf(Value value) const {
  return lies.lookup(value).sharding;
}

bool PartitionPlan::splitsColumns(MatmulOp product) const {
  const ShardingQuery *query = queryOf(product);
  return query && !query->sums && seeds.contains(product);
}

/// The weight's dimension that becomes the columns of the product.
static int64_t columnDim(MatmulOp product) {
  return product.getTransposeRhs() ? 0 : 1;
}

void PartitionPlan::findSeeds() {
  block.walk([&](MatmulOp product) {
    Value weight = product.getRhs();
    if (rankOf(weight) != 2 || product.getTransposeLhs() ||
        !isParameterView(weight))
      return;
    int64_t dim = columnDim(product), size = shapeOf(weight)[dim];
    if (size % parts == 0)
      seeds[product] = Sharding::split(dim, size);
    else
      whole[product] =
          "the ranks do not divide its " + std::to_string(size) + " columns";
  });
}

void PartitionPlan::search() {
  findSeeds();
  while (!propagate()) {
  }
}

bool PartitionPlan::propagate() {
  lies.clear();
  queries.clear();
  for (Operation &op : block)
    if (!visit(&op))
      return false;
  return true;
}

/// Asks an op that reads what is split, or is to be. False where the search
/// begins anew.
bool PartitionPlan::visit(Operation *op) {
  SmallVector<Sharding> operands;
  Seeds led;
  for (Value operand : op->getOperands()) {
    auto found = lies.find(operand);
    operands.push_back(found == lies.end() ? Sharding()
                                           : found->second.sharding);
    if (found != lies.end())
      led.insert_range(found->second.seeds);
  }
  if (led.empty()) {
    auto *seed = seeds.find(op);
    if (seed == seeds.end())
      return true;
    operands[1] = seed->second;
    led.insert(op);
  }
  ShardingQuery query(op, operands, parts);
  auto rule = dyn_cast<ShardableOpInterface>(op);
  LogicalResult answer =
      rule ? rule.shard(query) : query.refuse("it is only computed whole");
  for (auto [given, needed] : llvm::zip(operands, query.needed))
    if (succeeded(answer) && !given.isWhole() && given != needed)
      answer = query.refuse("its operands are split in different ways");
  if (failed(answer))
    return giveUp(led, query, op);
  for (auto [result, sharding] : llvm::zip(op->getResults(), query.results))
    if (!sharding.isWhole())
      lies[result] = {sharding, led};
  queries.try_emplace(op, std::move(query));
  return true;
}

/// Splits the products that led to an op in more sections, if that is what it
/// asks for, else no longer. Always false.
bool PartitionPlan::giveUp(const Seeds &led, const ShardingQuery &query,
                           Operation *op) {
  SmallVector<Operation *> finer;
  if (!query.getFractions().empty())
    for (Operation *seed : led)
      if (refine(seed, query.getFractions()))
        finer.push_back(seed);
  if (!finer.empty())
    return false;
  for (Operation *seed : led) {
    whole[seed] =
        (op->getName().getStringRef() + ": " + query.getReason()).str();
    seeds.erase(seed);
  }
  return false;
}

/// Whether the columns of the product can be cut at these fractions, too.
bool PartitionPlan::refine(Operation *seed, ArrayRef<double> fractions) {
  Sharding &columns = seeds[seed];
  int64_t size = columns.size(), end = 0;
  llvm::SmallSetVector<int64_t, 8> cuts;
  for (int64_t section : columns.sections)
    cuts.insert(end += section);
  for (double fraction : fractions) {
    double at = fraction * double(size);
    if (at != std::floor(at))
      return false;
    if (at > 0)
      cuts.insert(int64_t(at));
  }
  SmallVector<int64_t> ends = cuts.takeVector();
  llvm::sort(ends);
  Sharding finer = {columns.dim, {}};
  int64_t begin = 0;
  for (int64_t cut : ends) {
    finer.sections.push_back(cut - begin);
    begin = cut;
  }
  bool even = llvm::all_of(
      finer.sections, [&](int64_t section) { return section % parts == 0; });
  if (!even || finer.sections.size() > SHX_MAX_SECTIONS || finer == columns)
    return false;
  columns = finer;
  return true;
}
