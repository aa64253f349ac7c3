// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-group-experts: a mixture whose experts are modules of their own has each
// of them computed of every row, and all but the rows that chose it left out
// (lib/Import/SelectedRows.h):
//
//   Σᵢ select(ids == i, expertᵢ(rows), 0)  =  expert_ids(rows)
//
// Here each row is computed by the expert that it chose alone: their weights
// lie side by side as one stack, of which a row says which matrix it wants.

#include "ExpertChoice.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/runtime/IndexABI.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_GROUPEXPERTSPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

namespace {

/// One of the sum: what is done behind the select, outermost last.
struct Term {
  SelectOp select;
  ExpertChoice choice;
  SmallVector<Operation *> behind;

  Type type() const { return SelectOp(select).getType(); }
};

/// Sums, or selects, of experts.
struct Mixture {
  SmallVector<Term> terms;
  SmallVector<Value> others; // what else is added; of selects what they hide
};

bool equalButPlace(Operation *a, Operation *b) {
  auto attributes = [](Operation *op) {
    NamedAttrList list(op->getAttrs());
    list.erase("place");
    return list.getDictionary(op->getContext());
  };
  return a->getName() == b->getName() &&
         a->getResultTypes() == b->getResultTypes() &&
         a->getNumOperands() == b->getNumOperands() &&
         attributes(a) == attributes(b);
}

/// The same computation by several experts, as one of each row's own.
class Merger {
public:
  /// At the builder's insertion point, before which all is defined.
  Merger(OpBuilder &builder, Location loc, Value ids, int64_t experts)
      : builder(builder), b(builder, loc), ids(ids), experts(experts) {}

  /// Null where they do not compute the same, or not of each row alone.
  Value merge(ArrayRef<Value> values);

private:
  Value mergeAnew(ArrayRef<Value> values);
  bool isSame(ArrayRef<Value> values);
  Value stack(ArrayRef<Value> parameters);
  Value mergeProducts(ArrayRef<Value> products);
  Value mergeElementwise(ArrayRef<Value> values);
  static bool areParameters(ArrayRef<Value> values) {
    return llvm::all_of(values, [](Value value) {
      return value.getDefiningOp<GetOp>() != nullptr;
    });
  }
  int64_t rows() const { return shapeOf(ids)[0]; }

  OpBuilder &builder;
  NNBuilder b;
  Value ids; // of each row, 0 … experts - 1
  int64_t experts;
  /// Of several values what they are as one, null where they are not.
  SmallVector<std::pair<SmallVector<Value>, Value>> merged;
};

} // namespace

/// [experts, …]: side by side along their first axis parameters are not copied
/// (JoinedParameters.h).
Value Merger::stack(ArrayRef<Value> parameters) {
  SmallVector<int64_t> shape(shapeOf(parameters.front()));
  Type element = elementType(parameters.front());
  int64_t first = shape.front();
  shape.front() *= experts;
  Value joined =
      ConcatOp::create(builder, b.loc, RankedTensorType::get(shape, element),
                       parameters, builder.getI64IntegerAttr(0));
  shape.front() = first;
  shape.insert(shape.begin(), experts);
  return b.reshape(joined, shape);
}

Value Merger::mergeProducts(ArrayRef<Value> products) {
  SmallVector<Value> lhs, rhs;
  for (Value product : products) {
    auto op = product.getDefiningOp<MatmulOp>();
    lhs.push_back(op.getLhs());
    rhs.push_back(op.getRhs());
  }
  auto first = products.front().getDefiningOp<MatmulOp>();
  if (!areParameters(rhs) || rankOf(rhs.front()) != 2 ||
      rankOf(lhs.front()) != 2 || first.getTransposeLhs())
    return nullptr;
  Value vectors = merge(lhs);
  if (!vectors)
    return nullptr;
  return GroupedMatmulOp::create(builder, b.loc, vectors, stack(rhs), ids,
                                 bool(first.getTransposeRhs()));
}

/// Of a parameter for each expert (a bias) each row has that of its own.
Value Merger::mergeElementwise(ArrayRef<Value> values) {
  Operation *first = values.front().getDefiningOp();
  SmallVector<Value> operands;
  for (unsigned i = 0; i < first->getNumOperands(); ++i) {
    auto each = llvm::map_to_vector(values, [&](Value value) {
      return value.getDefiningOp()->getOperand(i);
    });
    if (!llvm::all_equal(each) && areParameters(each)) {
      if (rankOf(each.front()) != 1 || rankOf(values.front()) != 2)
        return nullptr;
      operands.push_back(EmbeddingOp::create(builder, b.loc, stack(each), ids));
      continue;
    }
    Value operand = merge(each);
    if (!operand)
      return nullptr;
    operands.push_back(operand);
  }
  Operation *clone = builder.clone(*first);
  clone->setOperands(operands);
  clone->setLoc(b.loc);
  return clone->getResult(0);
}

/// Whether equal ops read the same, as what is computed for each expert anew of
/// what all have.
bool Merger::isSame(ArrayRef<Value> values) {
  Operation *first = values.front().getDefiningOp();
  if (!isPure(first) || isa<MatmulOp>(first) || first->getNumResults() != 1)
    return false;
  for (unsigned i = 0; i < first->getNumOperands(); ++i) {
    auto each = llvm::map_to_vector(values, [&](Value value) {
      return value.getDefiningOp()->getOperand(i);
    });
    if (merge(each) != each.front())
      return false;
  }
  return true;
}

Value Merger::merge(ArrayRef<Value> values) {
  if (llvm::all_equal(values))
    return values.front();
  for (const auto &[known, result] : merged)
    if (ArrayRef(known) == values)
      return result;
  Value result = mergeAnew(values);
  merged.emplace_back(SmallVector<Value>(values), result);
  return result;
}

Value Merger::mergeAnew(ArrayRef<Value> values) {
  Operation *first = values.front().getDefiningOp();
  if (!first || !llvm::all_of(values, [&](Value value) {
        Operation *op = value.getDefiningOp();
        return op && value.getType() == values.front().getType() &&
               equalButPlace(op, first);
      }))
    return nullptr;
  if (isa<ConstantOp>(first) || isSame(values))
    return values.front();
  // What counts rows must: else an op does not work on each of them alone.
  if (rankOf(values.front()) < 1 || shapeOf(values.front())[0] != rows())
    return nullptr;
  if (isa<MatmulOp>(first))
    return mergeProducts(values);
  return isa<ElementwiseOpInterface>(first) ? mergeElementwise(values)
                                            : Value();
}

/// The term that a summand is, or nothing.
static std::optional<Term> matchTerm(Value value) {
  Term term;
  while (Operation *op = value.getDefiningOp()) {
    if (!op->hasOneUse() || term.behind.size() > 4)
      return std::nullopt;
    if (auto select = dyn_cast<SelectOp>(op)) {
      std::optional<double> hidden = getSplat(select.getFalseValue());
      std::optional<ExpertChoice> choice = matchChoice(select.getCondition());
      if (hidden != 0.0 || !choice || rankOf(select.getResult()) != 2)
        return std::nullopt;
      term.select = select;
      term.choice = *choice;
      return term;
    }
    if (!isa<ReshapeOp, TransposeOp, ReduceSumOp>(op))
      return std::nullopt;
    term.behind.push_back(op);
    value = op->getOperand(0);
  }
  return std::nullopt;
}

/// Whether both choose among the same rows by the same indices, and what is
/// chosen goes the same way.
static bool belongTogether(const Term &a, const Term &b) {
  return a.choice.sameIds(b.choice) && a.choice.expert != b.choice.expert &&
         a.type() == b.type() && a.behind.size() == b.behind.size() &&
         llvm::all_of(llvm::zip(a.behind, b.behind), [](auto pair) {
           return equalButPlace(std::get<0>(pair), std::get<1>(pair));
         });
}

/// Adds a term to those of its kind; what chooses an expert twice is another.
static void addTerm(Mixture &mixture, Value summand) {
  std::optional<Term> term = matchTerm(summand);
  if (term && llvm::all_of(mixture.terms, [&](const Term &other) {
        return belongTogether(*term, other);
      }))
    mixture.terms.push_back(*term);
  else
    mixture.others.push_back(summand);
}

/// The summands of a sum, in order.
static void collectSummands(Value value, Mixture &mixture) {
  auto add = value.getDefiningOp<AddOp>();
  for (Value operand : add->getOperands()) {
    auto inner = operand.getDefiningOp<AddOp>();
    if (inner && inner->hasOneUse() && inner.getType() == add.getType())
      collectSummands(operand, mixture);
    else
      addTerm(mixture, operand);
  }
}

/// select(ids == n, expertₙ, select(…, base)).
static void collectSelects(SelectOp select, Mixture &mixture) {
  std::optional<ExpertChoice> choice = matchChoice(select.getCondition());
  Term term;
  term.select = select;
  if (choice)
    term.choice = *choice;
  if (!choice || rankOf(select.getResult()) != 2 ||
      llvm::any_of(mixture.terms, [&](const Term &other) {
        return !belongTogether(term, other);
      })) {
    mixture.others = {select.getResult()};
    return;
  }
  mixture.terms.push_back(term);
  auto inner = select.getFalseValue().getDefiningOp<SelectOp>();
  if (inner && inner->hasOneUse())
    collectSelects(inner, mixture);
  else
    mixture.others = {select.getFalseValue()};
}

/// In place of `root`; null where the experts do not compute the same.
static Value group(Operation *root, Mixture &mixture) {
  SmallVector<Term> &terms = mixture.terms;
  auto experts = int64_t(terms.size());
  if (experts < 2 || experts > SHX_MOST_GROUPS)
    return nullptr;
  llvm::sort(terms, [](const Term &a, const Term &b) {
    return a.choice.expert < b.choice.expert;
  });
  PlaceListener listener(cast<PlacedOpInterface>(root).getPlaceAttr());
  OpBuilder builder(root, &listener);
  NNBuilder b(builder, root->getLoc());
  Operation *before = root->getPrevNode();
  auto chosen = llvm::map_to_vector(
      terms, [](const Term &term) { return term.choice.expert; });
  RowIds ids = rowIds(b, terms.front().choice, chosen);
  auto values = llvm::map_to_vector(
      terms, [](Term &term) -> Value { return term.select.getTrueValue(); });
  Value result =
      Merger(builder, root->getLoc(), ids.ids, experts).merge(values);
  if (!result) { // nothing stays of what could be merged
    while (root->getPrevNode() != before)
      root->getPrevNode()->erase();
    return nullptr;
  }
  if (isa<SelectOp>(root))
    return ids.some ? b.select(ids.some, result, mixture.others.front())
                    : result;
  if (ids.some)
    result = b.select(ids.some, result, b.constant(0, elementType(result)));
  for (Operation *op : llvm::reverse(terms.front().behind)) {
    Operation *clone = builder.clone(*op);
    clone->setOperand(0, result);
    result = clone->getResult(0);
  }
  for (Value other : mixture.others)
    result = b.add(other, result);
  return result;
}

/// Erases an op that nobody reads, and what is read by it alone.
static void eraseUnread(Operation *op) {
  SmallVector<Operation *> waiting = {op};
  while (!waiting.empty()) {
    Operation *next = waiting.pop_back_val();
    if (!isOpTriviallyDead(next))
      continue;
    SmallVector<Operation *> before;
    for (Value operand : next->getOperands())
      if (Operation *maker = operand.getDefiningOp();
          maker && !llvm::is_contained(before, maker))
        before.push_back(maker);
    llvm::erase(waiting, next);
    next->erase();
    waiting.append(before);
  }
}

/// Whether a sum or select is part of another one of its kind.
static bool isInner(Operation *op) {
  if (!op->hasOneUse())
    return false;
  Operation *reader = *op->user_begin();
  if (isa<AddOp>(op))
    return isa<AddOp>(reader) &&
           reader->getResultTypes() == op->getResultTypes();
  auto select = dyn_cast<SelectOp>(reader);
  return select && select.getFalseValue() == op->getResult(0);
}

namespace {
struct GroupExpertsPass : nn::impl::GroupExpertsPassBase<GroupExpertsPass> {
  void runOnOperation() override {
    SmallVector<Operation *> roots;
    getOperation().walk([&](Operation *op) {
      if (isa<AddOp, SelectOp>(op) && !isInner(op))
        roots.push_back(op);
    });
    for (Operation *root : roots) {
      Mixture mixture;
      if (auto select = dyn_cast<SelectOp>(root))
        collectSelects(select, mixture);
      else
        collectSummands(root->getResult(0), mixture);
      Value result = group(root, mixture);
      if (!result)
        continue;
      root->getResult(0).replaceAllUsesWith(result);
      eraseUnread(root);
    }
  }
};
} // namespace
