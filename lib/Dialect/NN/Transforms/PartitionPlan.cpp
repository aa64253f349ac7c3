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

bool PartitionPlan::sharesTokens(Value value) const {
  return lies.lookup(value).tokens;
}

/// A product of rows with a parameter.
static bool isLinearLayer(Operation *op) {
  auto product = dyn_cast<MatmulOp>(op);
  return product && rankOf(product.getRhs()) == 2 &&
         !product.getTransposeLhs() && isParameterView(product.getRhs());
}

/// The weight's dimension that becomes the columns of the product.
static int64_t columnDim(MatmulOp product) {
  return product.getTransposeRhs() ? 0 : 1;
}

void PartitionPlan::findSeeds() {
  block.walk([&](MatmulOp product) {
    if (!isLinearLayer(product))
      return;
    int64_t dim = columnDim(product), size = shapeOf(product.getRhs())[dim];
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
  gathering.clear();
  for (Operation &op : block)
    if (!visit(&op))
      return false;
  return true;
}

/// Whether the op takes its operands as they are split.
bool PartitionPlan::ask(ShardingQuery &query, Operation *op) {
  auto rule = dyn_cast<ShardableOpInterface>(op);
  LogicalResult answer =
      rule ? rule.shard(query) : query.refuse("it is only computed whole");
  for (auto [given, needed] : llvm::zip(query.operands, query.needed))
    if (succeeded(answer) && !given.isWhole() && given != needed)
      answer = query.refuse("its operands are split in different ways");
  return succeeded(answer);
}

void PartitionPlan::record(Operation *op, ShardingQuery query, const Seeds &led,
                           bool tokens) {
  for (auto [result, sharding] : llvm::zip(op->getResults(), query.results))
    if (!sharding.isWhole())
      lies[result] = {sharding, led, tokens};
  if (query.sums)
    shareSum(op);
  queries.try_emplace(op, std::move(query));
}

/// Asks an op that reads what is split, or is to be. False where the search
/// begins anew.
bool PartitionPlan::visit(Operation *op) {
  unsigned count = op->getNumOperands();
  SmallVector<Sharding> columns(count), tokens(count);
  Seeds led, shared;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    auto found = lies.find(operand);
    if (found == lies.end())
      continue;
    const Lie &lie = found->second;
    (lie.tokens ? tokens : columns)[i] = lie.sharding;
    (lie.tokens ? shared : led).insert_range(lie.seeds);
  }
  if (led.empty()) {
    auto *seed = seeds.find(op);
    if (seed == seeds.end())
      return shared.empty() || visitTokens(op, tokens, shared);
    columns[1] = seed->second;
    led.insert(op);
  }
  ShardingQuery query(op, columns, parts);
  if (!ask(query, op))
    return giveUp(led, query, op);
  record(op, std::move(query), led, /*tokens=*/false);
  return true;
}

/// An op that reads tokens of which each rank has some. A linear layer that is
/// whole reads all of them: else its gradient were a summand.
bool PartitionPlan::visitTokens(Operation *op, ArrayRef<Sharding> operands,
                                const Seeds &led) {
  if (isLinearLayer(op))
    return true;
  ShardingQuery query(op, operands, parts);
  bool takes = ask(query, op);
  if (takes && query.sums)
    takes = succeeded(query.refuse("it sums up what is split"));
  if (takes) {
    record(op, std::move(query), led, /*tokens=*/true);
    return true;
  }
  bool again = false;
  for (Operation *sum : led)
    again |= refine(sums[sum], query.getFractions(), /*tokens=*/true);
  // To share a sum out for an op that gathers it is to no one's good.
  if (!again && led.size() == 1 && isBehind(op, led.front())) {
    sums[led.front()] = Sharding::whole();
    again = true;
  }
  if (!again)
    gathering[op] = query.getReason().str();
  return !again;
}

/// Whether nothing but the op reads what comes of the sum.
bool PartitionPlan::isBehind(Operation *op, Operation *sum) const {
  while (op != sum) {
    auto shared = llvm::make_filter_range(
        op->getOperands(), [&](Value value) { return sharesTokens(value); });
    Value value = shared.empty() ? Value() : *shared.begin();
    if (!value || !value.hasOneUse())
      return false;
    op = value.getDefiningOp();
  }
  return true;
}

/// The tokens of a linear layer's sum are the first of its dimensions that the
/// ranks divide.
void PartitionPlan::shareSum(Operation *product) {
  Value sum = product->getResult(0);
  if (!sums.contains(product)) {
    Sharding &sharing = sums[product];
    for (auto [dim, size] : llvm::enumerate(shapeOf(sum).drop_back()))
      if (isLinearLayer(product) && sharing.isWhole() && size % parts == 0)
        sharing = Sharding::split(int64_t(dim), size);
  }
  if (sums[product].isWhole())
    return;
  Lie &lie = lies[sum];
  lie = {sums[product], {}, /*tokens=*/true};
  lie.seeds.insert(product);
}

/// Splits the products that led to an op in more sections, if that is what it
/// asks for, else no longer. Always false.
bool PartitionPlan::giveUp(const Seeds &led, const ShardingQuery &query,
                           Operation *op) {
  SmallVector<Operation *> finer;
  if (!query.getFractions().empty())
    for (Operation *seed : led)
      if (refine(seeds[seed], query.getFractions(), /*tokens=*/false))
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

/// Whether what is split can be cut at these fractions, too. Tokens may be of
/// any number of sequences, which are equal sections.
bool PartitionPlan::refine(Sharding &seed, ArrayRef<double> fractions,
                           bool tokens) {
  int64_t size = seed.size(), end = 0;
  llvm::SmallSetVector<int64_t, 8> cuts;
  for (int64_t section : seed.sections)
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
  Sharding finer = {seed.dim, {}};
  int64_t begin = 0;
  for (int64_t cut : ends) {
    finer.sections.push_back(cut - begin);
    begin = cut;
  }
  bool even = llvm::all_of(
      finer.sections, [&](int64_t section) { return section % parts == 0; });
  bool many = finer.sections.size() > SHX_MAX_SECTIONS &&
              !(tokens && llvm::all_equal(finer.sections));
  if (!even || many || finer == seed)
    return false;
  seed = finer;
  return true;
}
