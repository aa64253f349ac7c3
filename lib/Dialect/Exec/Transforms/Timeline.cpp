// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What runs in a step, in order, and which private buffers live meanwhile: for
// the memory and the queues over a step that `shardonnx inspect` shows.

#include "shardonnx/Dialect/Exec/Transforms/Describe.h"
#include "shardonnx/Dialect/Exec/Transforms/Lifetimes.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace shardonnx::exec {
namespace {

// Of an executable: what is smaller than the largest of these is added up over
// so many parts of the function.
constexpr size_t kBuffers = 8192, kParts = 1024;

// What a buffer is there for; the manifest counts them in this order.
enum BufferKind { Kept, InForward, InRecompute, InBackward, Reloaded, Smaller };

struct TimedBuffer {
  Operation *owner = nullptr;
  BufferKind kind = Kept;
  int64_t bytes = 0;
  size_t begin = 0, end = 0; // positions among the listed ops
};

class FunctionTimeline {
public:
  FunctionTimeline(func::FuncOp function, const LaunchTable &launches);
  void write(llvm::json::Object &described);

private:
  BufferKind kindOf(Operation *owner, LiveRange range) const;
  void collect(func::FuncOp function);
  void sumSmaller();

  llvm::json::Array ops;
  SmallVector<size_t> listedBefore; // each op of the block
  SmallVector<nn::Phase> phases;    // of each op of the block
  std::vector<TimedBuffer> buffers;
};

} // namespace

FunctionTimeline::FunctionTimeline(func::FuncOp function,
                                   const LaunchTable &launches) {
  nn::Phase phase = nn::Phase::forward;
  for (Operation &op : function.front()) {
    listedBefore.push_back(ops.size());
    std::optional<int64_t> run = launches.runOf(&op);
    if (run)
      phase = phaseOf(&op);
    phases.push_back(phase);
    if (run)
      ops.push_back(*run);
    if (isCommonCall(&op))
      ops.push_back(-1);
  }
  listedBefore.push_back(ops.size());
  collect(function);
}

// By the ops that are first and last to use it.
BufferKind FunctionTimeline::kindOf(Operation *owner, LiveRange range) const {
  if (llvm::any_of(owner->getUsers(), llvm::IsaPred<ReloadStartOp>))
    return Reloaded;
  nn::Phase first = phases[size_t(range.begin - 1)];
  nn::Phase last = phases[size_t(range.end - 2)];
  if (first == nn::Phase::forward)
    return last == nn::Phase::forward ? InForward : Kept;
  return first == nn::Phase::backward ? InBackward : InRecompute;
}

void FunctionTimeline::collect(func::FuncOp function) {
  Lifetimes lifetimes = bufferLifetimes(function, Space::private_);
  for (auto [owner, item] : llvm::zip(lifetimes.owners, lifetimes.items))
    // bufferLifetimes counts from 1.
    for (LiveRange range : item.live)
      buffers.push_back({owner, kindOf(owner, range), item.bytes,
                         listedBefore[size_t(range.begin - 1)],
                         listedBefore[size_t(range.end - 1)]});
  llvm::stable_sort(buffers, [](const TimedBuffer &a, const TimedBuffer &b) {
    return a.bytes > b.bytes;
  });
  if (buffers.size() > kBuffers)
    sumSmaller();
}

// Each part has the sum of what lives anywhere in it: no less than there is.
void FunctionTimeline::sumSmaller() {
  size_t length = std::max<size_t>(1, llvm::divideCeil(ops.size(), kParts));
  std::vector<int64_t> sums(ops.size() / length + 1);
  for (const TimedBuffer &buffer : ArrayRef(buffers).drop_front(kBuffers))
    for (size_t part = buffer.begin / length;
         part * length < std::max(buffer.end, buffer.begin + 1); ++part)
      sums[part] += buffer.bytes;
  buffers.resize(kBuffers);
  for (auto [part, bytes] : llvm::enumerate(sums))
    if (bytes > 0)
      buffers.push_back({nullptr, Smaller, bytes, part * length,
                         std::min((part + 1) * length, ops.size())});
}

void FunctionTimeline::write(llvm::json::Object &described) {
  llvm::json::Array list;
  for (const TimedBuffer &buffer : buffers)
    list.push_back(llvm::json::Array{
        int64_t(buffer.kind), buffer.bytes, int64_t(buffer.begin),
        int64_t(buffer.end),
        buffer.owner ? llvm::json::fixUTF8(nameOf(buffer.owner)) : ""});
  described["ops"] = std::move(ops);
  described["buffers"] = std::move(list);
}

// Of a step, one microbatch stands for all.
void addTimeline(func::FuncOp function, const LaunchTable &launches,
                 llvm::json::Object &described) {
  StringRef name = function.getSymName();
  if (name == fsdp::kFirstMicrobatch || name == fsdp::kUpdate)
    FunctionTimeline(function, launches).write(described);
}

} // namespace shardonnx::exec
