// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See PartitionPlan.h.

#include "PartitionPlan.h"
#include "shardonnx/Dialect/NN/IR/Inputs.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/runtime/MeshABI.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

PartitionPlan::PartitionPlan(Block &block, int64_t parts,
                             const TensorPlan &asked)
    : block(block), parts(parts), asked(asked) {}

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

/// Whether the ids are an input, and no positions or types.
static bool readsTokens(EmbeddingOp op) {
  Value ids = op.getIds();
  while (Operation *view = ids.getDefiningOp()) {
    if (!isa<ReshapeOp, CastOp, SliceOp, TransposeOp, PartSliceOp>(view))
      return false;
    ids = view->getOperand(0);
  }
  auto argument = cast<BlockArgument>(ids);
  auto function =
      dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  StringRef name = function ? inputName(function, argument.getArgNumber()) : "";
  return !isNamed(name, InputKind::PositionIds) &&
         !isNamed(name, InputKind::TokenTypeIds);
}

bool PartitionPlan::readsVocabulary(Operation *op) {
  if (auto loss = dyn_cast<LinearCrossEntropyOp>(op))
    return isParameterView(loss.getWeight());
  auto lookup = dyn_cast<EmbeddingOp>(op);
  return lookup && isParameterView(lookup.getTable()) && readsTokens(lookup);
}

bool PartitionPlan::sharesWords(Operation *op) const {
  const ShardingQuery *query = queryOf(op);
  return query && readsVocabulary(op) &&
         (query->sums || isa<LinearCrossEntropyOp>(op));
}

/// The parameter that a linear layer multiplies by, or whose words are looked
/// up.
static std::optional<unsigned> weightOf(Operation *op) {
  if (isLinearLayer(op) || isa<LinearCrossEntropyOp>(op))
    return 1;
  return isa<EmbeddingOp>(op) ? std::optional(0u) : std::nullopt;
}

/// The parameter that a value is a view of, or null.
static GetOp parameterOf(Value view) {
  auto get = view.getDefiningOp<GetOp>();
  while (!get && isParameterView(view)) {
    view = view.getDefiningOp()->getOperand(0);
    get = view.getDefiningOp<GetOp>();
  }
  return get;
}

/// What was asked for the weight of an op.
std::optional<ParallelStyle> PartitionPlan::styleOf(Operation *op) const {
  std::optional<unsigned> weight = weightOf(op);
  GetOp get = weight ? parameterOf(op->getOperand(*weight)) : nullptr;
  auto style = get ? asked.find(get.getParameter()) : asked.end();
  return style == asked.end() ? std::nullopt : std::optional(style->second);
}

/// Which parameter of an op is split first, and along which dimension: a linear
/// layer's columns, the words of a vocabulary, or as it was asked.
std::optional<PartitionPlan::Seed> PartitionPlan::seedOf(Operation *op) const {
  std::optional<ParallelStyle> style = styleOf(op);
  if (!(isLinearLayer(op) || readsVocabulary(op)) ||
      style == ParallelStyle::Replicate)
    return std::nullopt;
  unsigned weight = *weightOf(op);
  int64_t dim = 0;
  if (auto product = dyn_cast<MatmulOp>(op))
    dim = product.getTransposeRhs() == (style == ParallelStyle::Rowwise);
  else if (auto loss = dyn_cast<LinearCrossEntropyOp>(op))
    dim = loss.getTransposeWeight() == (style == ParallelStyle::Rowwise);
  else
    dim = style == ParallelStyle::Colwise;
  return Seed{weight,
              Sharding::split(dim, shapeOf(op->getOperand(weight))[dim])};
}

/// Whether an op may read its vocabulary where the last rank has fewer words:
/// each has some, and what lies between it and the parameter tells them apart.
bool PartitionPlan::takesUneven(Operation *op, const Seed &seed) const {
  auto loss = dyn_cast<LinearCrossEntropyOp>(op);
  int64_t words = loss && !loss.getTransposeWeight() ? 1 : 0;
  int64_t size = seed.sharding.size();
  int64_t each = llvm::divideCeil(size, parts);
  if (!readsVocabulary(op) || seed.sharding.dim != words ||
      each * (parts - 1) >= size)
    return false;
  Value view = op->getOperand(seed.operand);
  while (isa<TransposeOp, CastOp>(view.getDefiningOp()))
    view = view.getDefiningOp()->getOperand(0);
  return isa<GetOp>(view.getDefiningOp());
}

void PartitionPlan::findSeeds() {
  for (Operation &op : block) {
    std::optional<Seed> seed = seedOf(&op);
    if (!seed)
      continue;
    int64_t size = seed->sharding.size();
    if (size % parts == 0 || takesUneven(&op, *seed))
      seeds[&op] = *seed;
    else
      whole[&op] = "the ranks do not divide its " + std::to_string(size) +
                   (readsVocabulary(&op)                     ? " words"
                    : styleOf(&op) == ParallelStyle::Rowwise ? " rows"
                                                             : " columns");
  }
}

/// Why an op whose weight was asked to lie otherwise does not take what is
/// split; empty: it may.
StringRef PartitionPlan::refusalOf(Operation *op) const {
  std::optional<ParallelStyle> style = styleOf(op);
  if (style == ParallelStyle::Replicate)
    return "--tensor-plan replicates its weight";
  return style == ParallelStyle::Colwise
             ? "--tensor-plan splits its weight by columns"
             : "";
}

std::string PartitionPlan::unmet() const {
  llvm::StringSet<> met;
  for (Operation &op : block) {
    std::optional<ParallelStyle> style = styleOf(&op);
    if (!style || style == ParallelStyle::Replicate || !seedOf(&op))
      continue;
    StringRef name = parameterOf(op.getOperand(*weightOf(&op))).getParameter();
    if (auto *why = whole.find(&op); why != whole.end())
      return ("'" + name + "' cannot be " + spell(*style) + ": ").str() +
             why->second;
    met.insert(name);
  }
  for (const auto &entry : asked)
    if (entry.second != ParallelStyle::Replicate &&
        !met.contains(entry.first()))
      return ("'" + entry.first() + "' cannot be " + spell(entry.second) +
              ": it is the weight of no linear layer and no vocabulary")
          .str();
  return "";
}

void PartitionPlan::keepWhole(Operation *seed, std::string why) {
  whole[seed] = std::move(why);
  seeds.erase(seed);
}

void PartitionPlan::search() {
  findSeeds();
  while (!propagate() || dropHalfReads()) {
  }
}

/// What reads a view of the same parameter as a view of it.
static llvm::SetVector<Operation *> readersOf(Block &block, Value view) {
  llvm::SetVector<Operation *> readers;
  GetOp get = parameterOf(view);
  for (auto other : block.getOps<GetOp>()) {
    if (other.getParameterAttr() != get.getParameterAttr())
      continue;
    SmallVector<Value> views = {other};
    while (!views.empty())
      for (Operation *user : views.pop_back_val().getUsers())
        if (user->getNumResults() == 1 && isParameterView(user->getResult(0)))
          views.push_back(user->getResult(0));
        else
          readers.insert(user);
  }
  return readers;
}

/// A vocabulary that something reads whole is whole for all: to split it for
/// some is to gather its gradient. Whether there was one.
bool PartitionPlan::dropHalfReads() {
  for (auto &[op, seed] : seeds) {
    if (!readsVocabulary(op))
      continue;
    for (Operation *reader : readersOf(block, op->getOperand(seed.operand)))
      if (!readsVocabulary(reader) || !seeds.contains(reader)) {
        keepWhole(op,
                  (reader->getName().getStringRef() + " reads its table whole")
                      .str());
        return true;
      }
  }
  return false;
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
    columns[seed->second.operand] = seed->second.sharding;
    led.insert(op);
  }
  ShardingQuery query(op, columns, parts);
  StringRef refusal = led.contains(op) ? "" : refusalOf(op);
  if (!refusal.empty())
    (void)query.refuse(refusal);
  if (!refusal.empty() || !ask(query, op))
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

/// The tokens of a linear layer's sum, or a lookup's, are the first of its
/// dimensions that the ranks divide.
void PartitionPlan::shareSum(Operation *product) {
  if (!seedOf(product)) // a loss's has no tokens
    return;
  Value sum = product->getResult(0);
  if (!sums.contains(product)) {
    Sharding &sharing = sums[product];
    for (auto [dim, size] : llvm::enumerate(shapeOf(sum).drop_back()))
      if (sharing.isWhole() && size % parts == 0)
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
      if (refine(seeds[seed].sharding, query.getFractions(), /*tokens=*/false))
        finer.push_back(seed);
  if (!finer.empty())
    return false;
  for (Operation *seed : led)
    keepWhole(seed,
              (op->getName().getStringRef() + ": " + query.getReason()).str());
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
