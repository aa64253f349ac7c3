// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See ContextAttention.h.

#include "ContextAttention.h"

#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "llvm/ADT/SetVector.h"

#include <numeric>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

bool nn::isFirstKeys(Value mask) { return elementType(mask).isInteger(32); }

std::optional<int64_t> ContextRanks::repeats(AttentionOp op) const {
  int64_t heads = shapeOf(op.getQuery())[2], shared = shapeOf(op.getKey())[2];
  int64_t ranks = all();
  if (ranks < 1 || shared < 1 || heads % ranks != 0)
    return std::nullopt;
  int64_t times = std::lcm(shared, ranks) / shared;
  if (heads % (shared * times) != 0)
    return std::nullopt;
  return times;
}

bool nn::canGather(AttentionOp op) {
  if (!op.getCausal())
    return op.getWindow() == 0;
  bool masked = op.getMask() && !isFirstKeys(op.getMask());
  return !masked && shapeOf(op.getQuery())[1] == shapeOf(op.getKey())[1];
}

/// Whether parameters go into a mask, whose gradient a ring does not have.
static bool readsParameters(Value mask) {
  llvm::SetVector<Operation *> sources;
  auto visit = [&](Value value) {
    if (Operation *op = value.getDefiningOp())
      sources.insert(op);
  };
  visit(mask);
  for (size_t i = 0; i < sources.size(); ++i) {
    if (isa<GetOp>(sources[i]))
      return true;
    llvm::for_each(sources[i]->getOperands(), visit);
  }
  return false;
}

/// Why an attention cannot be computed in a ring; empty if it can.
static std::string ringRefusal(AttentionOp op) {
  Value mask = op.getMask();
  if (mask && readsParameters(mask))
    return "its mask is trained";
  if (!op.getCausal())
    return op.getWindow() == 0 ? "" : "it has a window, and is not causal";
  if (shapeOf(op.getQuery())[1] != shapeOf(op.getKey())[1])
    return "it is causal, of fewer queries than keys";
  bool masked = mask && !isFirstKeys(mask);
  return op.getWindow() > 0 && masked ? "it has a window beside a mask" : "";
}

namespace {

/// The elements that a rank sends of one attention, forward and backward.
struct Sent {
  Sent(AttentionOp op, ContextRanks ranks) : op(op), ranks(ranks) {
    ArrayRef<int64_t> q = shapeOf(op.getQuery()), v = shapeOf(op.getValue());
    auto own = double(q[0] * (q[3] + v[3])) / double(ranks.all());
    queries = own * double(q[1] * q[2]);
    keys = own * double(v[1] * v[2]);
  }

  /// Query, key, value and result, and the gradients of all four.
  double byHeads() {
    double shared = keys * double(ranks.repeats(op).value_or(1));
    return 2 * (queries + shared) * double(ranks.parts - 1) /
           double(ranks.parts);
  }

  /// Key and value, and again with their gradients.
  double inRing() {
    if (!op.getCausal())
      return 3 * keys * double(ranks.parts - 1);
    int64_t chunk = shapeOf(op.getKey())[1] / (2 * ranks.parts);
    RingReach reach = {ranks.parts, chunk, int64_t(op.getWindow())};
    return 3 * keys / 2 * double(reach.chunksSent());
  }

  AttentionOp op;
  ContextRanks ranks;
  double queries, keys; // a rank's query and result, its key and value
};

} // namespace

static InFlightDiagnostic refuse(AttentionOp op, ContextRanks ranks) {
  return op.emitError() << "--mesh: context:" << ranks.parts << ' ';
}

/// A sequence that a zigzag cannot have, or nothing.
static std::optional<int64_t> unbalanced(ArrayRef<AttentionOp> attentions,
                                         ContextRanks ranks,
                                         ArrayRef<int64_t> lengths) {
  if (llvm::none_of(attentions, [](AttentionOp op) { return op.getCausal(); }))
    return std::nullopt;
  for (int64_t length : lengths)
    if (length % (2 * ranks.parts) != 0)
      return length;
  return std::nullopt;
}

static LogicalResult checkRing(ArrayRef<AttentionOp> attentions,
                               ContextRanks ranks, ArrayRef<int64_t> lengths) {
  for (AttentionOp op : attentions)
    if (std::string why = ringRefusal(op); !why.empty())
      return refuse(op, ranks)
             << "cannot compute this attention in a ring: " << why
             << "; leave --context-attention=ring out";
  int64_t each = 2 * ranks.parts;
  if (std::optional<int64_t> length = unbalanced(attentions, ranks, lengths))
    return refuse(attentions.front(), ranks)
           << "balances a ring over " << each
           << " chunks, which do not divide sequences of " << *length
           << " tokens; the nearest that they do is --seq="
           << std::max((*length + ranks.parts) / each * each, each);
  return success();
}

static LogicalResult checkHeads(AttentionOp op, ContextRanks ranks,
                                const Twine &instead) {
  if (ranks.repeats(op))
    return success();
  int64_t heads = shapeOf(op.getQuery())[2];
  InFlightDiagnostic error = refuse(op, ranks)
                             << "does not divide the " << heads
                             << " heads of this attention";
  if (ranks.tensor > 1)
    error << " with tensor:" << ranks.tensor;
  return error << instead << "; the nearest that does is context:"
               << nearestDivisor(heads / std::gcd(heads, ranks.tensor),
                                 ranks.parts);
}

static LogicalResult checkGather(AttentionOp op, ContextRanks ranks) {
  if (canGather(op))
    return success();
  return refuse(op, ranks)
         << "has all keys on each rank only where there is no mask or window "
            "beside a causal one; leave --context-attention=all-gather out";
}

/// What sends least of the ways that all attention can take.
static FailureOr<ContextAttention> cheapest(ArrayRef<AttentionOp> attentions,
                                            ContextRanks ranks,
                                            ArrayRef<int64_t> lengths) {
  bool heads = true, ring = !unbalanced(attentions, ranks, lengths);
  double byHeads = 0, inRing = 0;
  for (AttentionOp op : attentions) {
    heads &= ranks.repeats(op).has_value();
    ring &= ringRefusal(op).empty();
    byHeads += Sent(op, ranks).byHeads();
    inRing += Sent(op, ranks).inRing();
  }
  if (ring && !(heads && byHeads <= inRing))
    return ContextAttention::Ring;
  if (heads)
    return ContextAttention::Ulysses;
  for (AttentionOp op : attentions) {
    std::string why = ringRefusal(op);
    if (canGather(op) ||
        succeeded(checkHeads(op, ranks,
                             ", and cannot compute it in a ring: " +
                                 (why.empty() ? "others cannot be" : why))))
      continue;
    return failure();
  }
  return ContextAttention::Auto;
}

FailureOr<ContextAttention>
nn::chooseContextAttention(func::FuncOp function, ContextAttention asked,
                           ContextRanks ranks, ArrayRef<int64_t> lengths) {
  auto attentions = llvm::to_vector(function.getOps<AttentionOp>());
  if (asked == ContextAttention::Auto)
    return cheapest(attentions, ranks, lengths);
  if (asked == ContextAttention::Ring &&
      failed(checkRing(attentions, ranks, lengths)))
    return failure();
  for (AttentionOp op : attentions)
    if ((asked == ContextAttention::Ulysses &&
         failed(checkHeads(op, ranks,
                           ", by which --context-attention=ulysses "
                           "splits"))) ||
        (asked == ContextAttention::AllGather &&
         failed(checkGather(op, ranks))))
      return failure();
  return asked;
}
