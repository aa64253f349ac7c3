// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See ContextAttention.h.

#include "ContextAttention.h"

#include "shardonnx/Cost/Device.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Support/UsageError.h"
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

/// How long a rank of a device takes for one attention, forward and backward:
/// what is sent, and blocks, whose rates depend on their length.
class Predicted {
public:
  Predicted(AttentionOp op, ContextRanks ranks, const Device &device)
      : op(op), ranks(ranks), device(device), group(ranks.parts, ranks.tensor) {
    ArrayRef<int64_t> q = shapeOf(op.getQuery()), k = shapeOf(op.getKey());
    batch = double(q[0]);
    queries = double(q[1]);
    keys = double(k[1]);
    heads = double(q[2]) / double(ranks.tensor);
    shared = double(k[2]) / double(ranks.tensor);
    depth = double(q[3]);
    width = double(shapeOf(op.getValue())[3]);
    bytes = double(elementType(op.getQuery()).getIntOrFloatBitWidth()) / 8;
  }

  double byHeads();
  double inRing();

private:
  double block(double heads, double rows, double columns, bool causal) const;
  double merge(double rows, double columns) const;

  AttentionOp op;
  ContextRanks ranks;
  const Device &device;
  RankGroup group;
  double batch, queries, keys, heads, shared, depth, width, bytes;
};

} // namespace

// FLOPs as docs/plan.md counts them: five products backward for two forward.
double Predicted::block(double ofHeads, double rows, double columns,
                        bool causal) const {
  double flops = 2 * batch * ofHeads * rows * columns * (depth + width);
  if (causal)
    flops /= 2;
  double moved = bytes * batch * ofHeads * (rows + columns) * (depth + width);
  double seconds = 0;
  for (bool backward : {false, true}) {
    double scale = backward ? 2.5 : 1;
    double each = device.attentionSeconds(scale * flops, scale * moved,
                                          {rows, depth, causal, backward},
                                          /*half=*/bytes == 2);
    seconds += std::max(each, device.launchSeconds);
  }
  return seconds;
}

// What a block has seen is added to what others have, in f32, and so are the
// gradients of queries, keys and values.
double Predicted::merge(double rows, double columns) const {
  double elements = batch * (heads * rows * (depth + width) +
                             shared * columns * (depth + width));
  return 2 * device.launchSeconds +
         elements * (bytes + 2 * sizeof(float)) / device.memoryBytesPerSecond;
}

// Each of query, key, value and result is sent, and its gradient; on its way it
// is laid side by side once.
double Predicted::byHeads() {
  double seen =
      op.getWindow() > 0 ? std::min(keys, double(op.getWindow())) : keys;
  bool causal = op.getCausal() && op.getWindow() == 0;
  double seconds = block(heads / double(ranks.parts), queries, seen, causal);
  double times = double(ranks.repeats(op).value_or(1));
  for (double size :
       {queries * heads * depth, queries * heads * width,
        keys * shared * times * depth, keys * shared * times * width}) {
    double sent = bytes * batch * size / double(ranks.parts);
    seconds += 2 * (device.allToAllSeconds(sent, group) +
                    2 * sent / device.memoryBytesPerSecond);
  }
  return seconds;
}

// Keys and values go around once forward, and backward with their gradients.
double Predicted::inRing() {
  auto parts = double(ranks.parts);
  double rows = queries / parts, columns = keys / parts;
  double seconds = block(heads, rows, columns, op.getCausal());
  double chunk = op.getCausal() ? columns / 2 : columns;
  RingReach reach = {ranks.parts, int64_t(chunk), int64_t(op.getWindow())};
  double sent = 3 * bytes * batch * shared * (depth + width) * chunk;
  for (int64_t behind = 1; behind < ranks.parts; ++behind) {
    int blocks = 1; // each of a chunk of keys
    if (op.getCausal())
      blocks = int(reach.lateSeeEarly(behind)) +
               int(reach.earlySeeEarly(behind) || reach.lateSeeLate(behind));
    double blockRows = op.getCausal() ? rows / 2 : rows;
    seconds += blocks * (block(heads, blockRows, chunk, /*causal=*/false) +
                         merge(blockRows, chunk));
    // In a step all goes to one rank: keys, values, and again with gradients.
    if (blocks > 0)
      seconds += 6 * device.allToAllSeconds(
                         sent * blocks / 6 * parts / (parts - 1), group);
  }
  return seconds;
}

static InFlightDiagnostic refuse(AttentionOp op, ContextRanks ranks) {
  return emitUsageError(op) << "--mesh: context:" << ranks.parts << ' ';
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

/// The fastest of the ways that all attention can take; where no device is
/// known, what sends least.
static FailureOr<ContextAttention> cheapest(ArrayRef<AttentionOp> attentions,
                                            ContextRanks ranks,
                                            ArrayRef<int64_t> lengths,
                                            const Device *device) {
  bool heads = true, ring = !unbalanced(attentions, ranks, lengths);
  double byHeads = 0, inRing = 0;
  for (AttentionOp op : attentions) {
    heads &= ranks.repeats(op).has_value();
    ring &= ringRefusal(op).empty();
    byHeads += device ? Predicted(op, ranks, *device).byHeads()
                      : Sent(op, ranks).byHeads();
    inRing += device ? Predicted(op, ranks, *device).inRing()
                     : Sent(op, ranks).inRing();
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
                           ContextRanks ranks, ArrayRef<int64_t> lengths,
                           const Device *device) {
  auto attentions = llvm::to_vector(function.getOps<AttentionOp>());
  if (asked == ContextAttention::Auto)
    return cheapest(attentions, ranks, lengths, device);
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
