// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// exec-offload-activations: which buffers wait for backward in host memory, and
// where their copies begin and end. The order of the calls is all that there
// is: the planner reads lifetimes off it, and the runtime makes it events.

#include "shardonnx/Dialect/Exec/Transforms/Describe.h"
#include "shardonnx/Dialect/Exec/Transforms/Lifetimes.h"
#include "shardonnx/Dialect/Exec/Transforms/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

namespace shardonnx::exec {
#define GEN_PASS_DEF_OFFLOADACTIVATIONSPASS
#include "shardonnx/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace shardonnx::exec

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

namespace {

// What is smaller is not worth a copy.
constexpr double kLeastBytes = 1024;

using Seconds = llvm::function_ref<double(Operation *)>;

/// A function of the step by positions in its block.
struct Course {
  Course(func::FuncOp function, Seconds secondsOf);

  std::vector<Operation *> ops;
  std::vector<double> begins; // one more than there are ops
  std::vector<bool> forward;
  size_t backward; // the first op that is not of forward
  /// Ops of one unit, in one direction, that follow one another, and where each
  /// such stretch begins. Ops without a unit go with what is before them.
  std::vector<size_t> stretches, stretchBegins;
  std::vector<FlatSymbolRefAttr> units; // of each stretch

  size_t beginOf(size_t stretch) const {
    return stretch < stretchBegins.size() ? stretchBegins[stretch] : ops.size();
  }
  /// The first op that begins no sooner, and the last that begins no later.
  size_t behind(double time) const {
    return size_t(llvm::lower_bound(begins, time) - begins.begin());
  }
  size_t before(double time) const {
    return size_t(std::max<ptrdiff_t>(
        llvm::upper_bound(begins, time) - begins.begin() - 1, 0));
  }
};

/// A buffer that may wait in host memory.
struct Copy {
  AllocOp owner;
  size_t last = 0, next = 0; // uses between which nobody needs it
  double seconds = 0;        // in one direction
  bool isInput = false;      // of a unit, from another one
  // Before these ops the copy away is awaited, and the copy back begins.
  size_t away = 0, back = 0;
};

class OffloadActivations
    : public exec::impl::OffloadActivationsPassBase<OffloadActivations> {
public:
  using OffloadActivationsPassBase::OffloadActivationsPassBase;
  void runOnOperation() override;

private:
  double secondsOf(Operation *op) const;
  std::vector<Copy> candidates(func::FuncOp function, const Course &course);
  std::vector<Copy> choose(std::vector<Copy> all, const Course &course) const;
};

} // namespace

Course::Course(func::FuncOp function, Seconds secondsOf) {
  double time = 0;
  bool isForward = true;
  FlatSymbolRefAttr unit;
  for (Operation &op : function.front()) {
    if (nn::PlaceAttr place = placeInStep(&op)) {
      bool was =
          std::exchange(isForward, place.getPhase() == nn::Phase::forward);
      if (place.getUnit() && (place.getUnit() != unit || was != isForward)) {
        unit = place.getUnit();
        stretchBegins.push_back(ops.size());
        units.push_back(unit);
      }
    }
    stretches.push_back(stretchBegins.empty() ? 0 : stretchBegins.size() - 1);
    ops.push_back(&op);
    forward.push_back(isForward);
    begins.push_back(time);
    time += secondsOf(&op);
  }
  begins.push_back(time);
  backward = size_t(llvm::find(forward, false) - forward.begin());
}

double OffloadActivations::secondsOf(Operation *op) const {
  Work work = workOf(op);
  return std::max(work.flops / flopsPerSecond, work.bytes / bytesPerSecond);
}

//===----------------------------------------------------------------------===//
// What may go
//===----------------------------------------------------------------------===//

static bool writes(Operation *op, Value root) {
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  if (!effects)
    return false;
  SmallVector<MemoryEffects::EffectInstance> list;
  effects.getEffects(list);
  return llvm::any_of(list, [&](const MemoryEffects::EffectInstance &effect) {
    return effect.getValue() && rootOf(effect.getValue()) == root &&
           isa<MemoryEffects::Write>(effect.getEffect());
  });
}

// Buffers that forward and what is behind it use, from the last use in forward
// on.
std::vector<Copy> OffloadActivations::candidates(func::FuncOp function,
                                                 const Course &course) {
  llvm::MapVector<Operation *, SmallVector<size_t>> uses;
  for (auto [position, op] : llvm::enumerate(course.ops)) {
    if (isa<ViewOp>(op))
      continue;
    for (Value operand : op->getOperands())
      if (auto owner = rootOf(operand).getDefiningOp<AllocOp>())
        uses[owner].push_back(position);
  }
  std::vector<Copy> copies;
  for (auto &[op, positions] : uses) {
    Copy copy;
    copy.owner = cast<AllocOp>(op);
    double bytes = bytesOf(copy.owner.getBuffer());
    auto next = llvm::find_if(
        positions, [&](size_t position) { return !course.forward[position]; });
    if (copy.owner.getHost() || bytes < kLeastBytes ||
        next == positions.begin() || next == positions.end())
      continue;
    copy.next = *next;
    copy.last = *std::prev(next);
    copy.seconds = copySeconds + bytes / hostBytesPerSecond;
    size_t written = positions.front();
    for (size_t position : ArrayRef(positions.begin(), next))
      if (writes(course.ops[position], copy.owner.getBuffer()))
        written = position;
    copy.isInput =
        !course.units.empty() && course.units[course.stretches[written]] !=
                                     course.units[course.stretches[copy.last]];
    copies.push_back(copy);
  }
  return copies;
}

//===----------------------------------------------------------------------===//
// What goes
//===----------------------------------------------------------------------===//

namespace {

/// How long inputs of units may stand in a queue: so that two or three are on
/// the device at a time the step waits for them. Where none has to wait, they
/// may stand behind what is larger.
enum class Inputs { AreAwaited, MayQueue };

} // namespace

// Copies away one after the other, in the order in which forward has done with
// them. Says for how long the step waits.
static double placeAway(MutableArrayRef<Copy *> copies, const Course &course,
                        Inputs inputs) {
  llvm::stable_sort(copies, [](Copy *a, Copy *b) { return a->last < b->last; });
  double free = 0, waited = 0;
  for (Copy *copy : copies) {
    free = std::max(free, course.begins[copy->last + 1]) + copy->seconds;
    size_t latest = copy->isInput && inputs == Inputs::AreAwaited
                        ? course.beginOf(course.stretches[copy->last] + 2)
                        : course.backward;
    copy->away = std::max(copy->last + 1, course.behind(free));
    if (copy->away > latest) {
      copy->away = latest;
      waited += free - course.begins[latest];
    }
  }
  return waited;
}

// Copies back in the order in which they are needed, as late as it may be. Says
// for how long the step waits.
static double placeBack(MutableArrayRef<Copy *> copies, const Course &course,
                        Inputs inputs) {
  llvm::stable_sort(copies, [](Copy *a, Copy *b) { return a->next < b->next; });
  double needed = course.begins.back(), waited = 0;
  size_t behind = course.ops.size();
  for (Copy *copy : llvm::reverse(copies)) {
    needed = std::min(needed, course.begins[copy->next]) - copy->seconds;
    size_t stretch = course.stretches[copy->next];
    size_t earliest =
        copy->isInput && stretch > 0 && inputs == Inputs::AreAwaited
            ? course.beginOf(stretch - 1)
            : course.backward;
    copy->back = std::min(copy->next, course.before(needed));
    if (copy->back < earliest) {
      copy->back = earliest;
      waited += course.begins[earliest] - needed;
    }
    behind = copy->back = std::min(copy->back, behind);
  }
  return waited;
}

/// The seconds that the step waits; nothing where a copy would leave its memory
/// to nobody.
static std::optional<double> place(std::vector<Copy> &copies,
                                   const Course &course, Inputs inputs) {
  SmallVector<Copy *> order;
  for (Copy &copy : copies)
    order.push_back(&copy);
  double waited =
      placeAway(order, course, inputs) + placeBack(order, course, inputs);
  if (llvm::any_of(copies,
                   [](const Copy &copy) { return copy.away >= copy.back; }))
    return std::nullopt;
  return waited;
}

std::vector<Copy> OffloadActivations::choose(std::vector<Copy> all,
                                             const Course &course) const {
  // Inputs of units first, then what is kept longest.
  llvm::stable_sort(all, [&](const Copy &a, const Copy &b) {
    if (a.isInput != b.isInput)
      return a.isInput;
    auto kept = [&](const Copy &copy) {
      return course.begins[copy.next] - course.begins[copy.last];
    };
    return kept(a) > kept(b);
  });
  std::vector<Copy> chosen;
  double waits = 0; // for inputs of units alone
  Inputs inputs = Inputs::AreAwaited;
  for (const Copy &copy : all) {
    if (!copy.isInput && inputsOnly)
      break;
    if (!copy.isInput && waits == 0)
      inputs = Inputs::MayQueue;
    chosen.push_back(copy);
    std::optional<double> waited = place(chosen, course, inputs);
    if (!waited || (!copy.isInput && *waited > waits))
      chosen.pop_back();
    else
      waits = *waited;
  }
  place(chosen, course, inputs);
  return chosen;
}

//===----------------------------------------------------------------------===//
// The calls
//===----------------------------------------------------------------------===//

namespace {

/// Puts the calls of chosen copies into a function.
class CopyWriter {
public:
  CopyWriter(func::FuncOp function, const Course &course)
      : course(course), builder(function) {}
  void write(std::vector<Copy> &copies);

private:
  void before(size_t position, size_t located) {
    builder.setInsertionPoint(course.ops[position]);
    loc = course.ops[located]->getLoc();
  }
  void leave(const Copy &copy, int64_t number);
  void comeBack(const Copy &copy, int64_t number);
  void beBack(const Copy &copy, int64_t number);
  void replaceFrom(size_t position, Value old, Value buffer);
  Value inBuffer(Value operand, Value old, Value buffer);

  const Course &course;
  OpBuilder builder;
  Location loc = builder.getUnknownLoc();
  llvm::DenseMap<Operation *, Value> hosts, returned; // by owner
  llvm::DenseMap<Value, Value> views;                 // of what has come back
};

} // namespace

void CopyWriter::leave(const Copy &copy, int64_t number) {
  AllocOp owner = copy.owner;
  before(copy.last + 1, copy.last);
  Value host = AllocOp::create(builder, owner.getLoc(), owner.getType(),
                               /*host=*/true);
  hosts[owner] = host;
  OffloadStartOp::create(builder, loc, number, owner.getBuffer(), host);
}

void CopyWriter::comeBack(const Copy &copy, int64_t number) {
  AllocOp owner = copy.owner;
  before(copy.back, copy.next);
  Value buffer = AllocOp::create(builder, owner.getLoc(), owner.getType());
  ReloadStartOp::create(builder, loc, number, hosts.lookup(owner), buffer);
  returned[owner] = buffer;
}

void CopyWriter::beBack(const Copy &copy, int64_t number) {
  AllocOp owner = copy.owner;
  Value buffer = returned.lookup(owner);
  before(copy.next, copy.next);
  ReloadWaitOp::create(builder, loc, number, buffer);
  replaceFrom(copy.next, owner.getBuffer(), buffer);
}

// The view of `buffer` that `operand` is of `old`.
Value CopyWriter::inBuffer(Value operand, Value old, Value buffer) {
  if (operand == old)
    return buffer;
  if (Value view = views.lookup(operand))
    return view;
  auto from = operand.getDefiningOp<ViewOp>();
  Value source = inBuffer(from.getSource(), old, buffer);
  return views[operand] = ViewOp::create(builder, from.getLoc(), from.getType(),
                                         source, from.getOffset());
}

void CopyWriter::replaceFrom(size_t position, Value old, Value buffer) {
  for (Operation *op : ArrayRef(course.ops).drop_front(position)) {
    if (isa<ViewOp>(op))
      continue;
    builder.setInsertionPoint(op);
    for (OpOperand &operand : op->getOpOperands())
      if (isa<MemRefType>(operand.get().getType()) &&
          rootOf(operand.get()) == old)
        operand.set(inBuffer(operand.get(), old, buffer));
  }
}

void CopyWriter::write(std::vector<Copy> &copies) {
  auto inOrderOf = [&](size_t Copy::*position) {
    llvm::stable_sort(copies, [&](const Copy &a, const Copy &b) {
      return a.*position < b.*position;
    });
  };
  inOrderOf(&Copy::last);
  llvm::DenseMap<Operation *, int64_t> numbers;
  for (const Copy &copy : copies) {
    int64_t number = int64_t(numbers.size());
    numbers[copy.owner] = number;
    leave(copy, number);
  }
  for (const Copy &copy : copies) {
    before(copy.away, copy.last);
    AllocOp owner = copy.owner;
    OffloadWaitOp::create(builder, loc, numbers.lookup(owner),
                          owner.getBuffer());
  }
  inOrderOf(&Copy::next);
  // What begins before an op does so before anything is awaited there.
  for (const Copy &copy : copies)
    comeBack(copy, numbers.lookup(copy.owner));
  for (const Copy &copy : copies)
    beBack(copy, numbers.lookup(copy.owner));
  for (Operation *op : llvm::reverse(course.ops))
    if (isa<ViewOp>(op) && op->use_empty())
      op->erase();
}

void OffloadActivations::runOnOperation() {
  for (func::FuncOp function : stepFunctions(getOperation())) {
    Course course(function, [&](Operation *op) { return secondsOf(op); });
    if (course.backward == course.ops.size())
      continue;
    std::vector<Copy> copies = choose(candidates(function, course), course);
    if (!copies.empty())
      CopyWriter(function, course).write(copies);
  }
}
