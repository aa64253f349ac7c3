// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How values lie on an axis of the mesh, and the rules that families share.

#include "Shardable.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/runtime/MeshABI.h"
#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

#include "shardonnx/Dialect/NN/IR/ShardableOpInterface.cpp.inc"

int64_t Sharding::size() const {
  return std::accumulate(sections.begin(), sections.end(), int64_t(0));
}

RankedTensorType Sharding::localType(RankedTensorType type,
                                     int64_t parts) const {
  if (isWhole())
    return type;
  SmallVector<int64_t> shape(type.getShape());
  // Words of a vocabulary alone need not be even: the last rank has fewer.
  shape[dim] = llvm::divideCeil(shape[dim], parts);
  return type.clone(shape);
}

ShardingQuery::ShardingQuery(Operation *op, ArrayRef<Sharding> operands,
                             int64_t parts)
    : parts(parts), operands(operands), needed(operands.size()),
      results(op->getNumResults()), made(op->getNumResults()) {}

unsigned ShardingQuery::splitOperand() const {
  const auto *split =
      llvm::find_if(operands, [](const Sharding &s) { return !s.isWhole(); });
  assert(split != operands.end() && "asked of operands that are whole");
  return split - operands.begin();
}

LogicalResult ShardingQuery::refuse(StringRef why) {
  reason = why.str();
  return failure();
}

LogicalResult ShardingQuery::refine(unsigned operand, ArrayRef<int64_t> ends) {
  auto size = double(operands[operand].size());
  for (int64_t end : ends)
    fractions.push_back(double(end) / size);
  return refuse("a dimension is cut where its parts are not");
}

/// How many sections of one size there are; 0 where they differ.
static int64_t equalSections(const Sharding &sharding) {
  return llvm::all_equal(sharding.sections) ? int64_t(sharding.sections.size())
                                            : 0;
}

// In row-major order a tensor is so many blocks, `before` times its sections,
// of each of which a rank has an even part. Under the other shape these are the
// sections of the dimension before which there are so many blocks, or a
// divisor of them. Those of a zigzag stay in pairs.
std::optional<Sharding> nn::reshaped(ArrayRef<int64_t> from,
                                     ArrayRef<int64_t> to,
                                     const Sharding &sharding, int64_t parts) {
  int64_t before = 1, equal = equalSections(sharding);
  for (int64_t size : from.take_front(sharding.dim))
    before *= size;
  int64_t blocks = before * equal, reached = 1;
  for (auto [dim, size] : llvm::enumerate(to)) {
    if (reached == before && size == from[sharding.dim])
      return sharding.along(int64_t(dim));
    int64_t count = blocks / reached; // of sections
    bool paired = !sharding.zigzag || count % 2 == 0;
    if (equal > 0 && blocks % reached == 0 && count > 0 && paired &&
        size % (count * parts) == 0)
      return Sharding{int64_t(dim),
                      SmallVector<int64_t, 1>(count, size / count),
                      sharding.zigzag};
    reached *= size;
  }
  return std::nullopt;
}

LogicalResult nn::shardElementwise(Operation *op, ShardingQuery &query) {
  int64_t rank = rankOf(op->getResult(0));
  unsigned split = query.splitOperand();
  const Sharding &given = query.operands[split];
  int64_t dim = given.dim + rank - rankOf(op->getOperand(split));
  for (auto [operand, needed] : llvm::zip(op->getOperands(), query.needed)) {
    int64_t own = dim - (rank - rankOf(operand));
    if (own >= 0 && shapeOf(operand)[own] == given.size())
      needed = given.along(own);
  }
  query.results[0] = given.along(dim);
  return success();
}

LogicalResult nn::shardRows(Operation *op, ShardingQuery &query) {
  Sharding given = query.operands[0];
  if (given.isWhole())
    return query.refuse("what scales rows is split");
  if (given.dim == rankOf(op->getOperand(0)) - 1)
    return query.refuse("it reads whole rows");
  query.needed[0] = given;
  llvm::fill(query.results, given);
  return success();
}

void nn::attachShardings(MLIRContext &context) {
  attachElementwiseShardings(context);
  attachUnaryShardings(context);
  attachMathShardings(context);
  attachShapeShardings(context);
  attachReduceShardings(context);
  attachMatmulShardings(context);
  attachAttentionShardings(context);
  attachNormShardings(context);
  attachLossShardings(context);
  attachMeshShardings(context);
  attachIndexShardings(context);
  attachRingShardings(context);
  attachVocabularyShardings(context);
}
