// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Best fit over decreasing sizes (Pisarchyk & Lee 2020, "Efficient Memory
// Management for Deep Neural Net Inference", greedy by size), with restarts.

#include "shardonnx/Dialect/Exec/Transforms/OffsetPlanner.h"
#include "shardonnx/runtime/Layout.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

using namespace llvm;

namespace shardonnx::exec {
namespace {

int64_t alignedBytes(const PlanItem &item) {
  return alignTo(item.bytes, kBufferAlignmentBytes);
}

struct Event {
  int64_t time;
  bool begins; // ends sort before begins
  unsigned item;
};

std::vector<Event> sortedEvents(ArrayRef<PlanItem> items) {
  std::vector<Event> events;
  for (auto [index, item] : enumerate(items))
    for (LiveRange range : item.live)
      if (range.begin < range.end) {
        events.push_back({range.begin, true, unsigned(index)});
        events.push_back({range.end, false, unsigned(index)});
      }
  llvm::sort(events, [](const Event &a, const Event &b) {
    return std::tie(a.time, a.begins, a.item) <
           std::tie(b.time, b.begins, b.item);
  });
  return events;
}

// One attempt is a list of the items in the order in which they are placed.
class Planner {
public:
  Planner(MutableArrayRef<PlanItem> items, size_t placed)
      : items(items), placed(placed) {
    for (const PlanItem &item : items)
      sizes.push_back(alignedBytes(item));
    findConflicts();
  }
  PlanSummary run(PlanOrder first);

private:
  using Order = std::vector<unsigned>;
  void findConflicts();
  std::optional<int64_t> place(const Order &order);
  void put(unsigned item, int64_t offset);
  void findTaken(unsigned item);
  int64_t bestFit(unsigned item);
  bool attempt(Order order);
  void improve();
  Order sortedBy(function_ref<double(unsigned)> key) const;

  MutableArrayRef<PlanItem> items;
  const size_t placed; // of the items: these stay
  std::vector<int64_t> sizes, offsets, best;
  std::vector<std::vector<unsigned>> conflicts;
  std::vector<std::pair<int64_t, int64_t>> taken; // of bestFit
  std::vector<unsigned> byOffset;                 // those placed so far
  std::vector<unsigned> meets; // the item that each was last found to meet
  Order bestOrder;
  int64_t bestBytes = INT64_MAX, lowerBound = 0;
  // Conflicts of an attempt, and those of all attempts, so that effort has a
  // bound whatever the input.
  int64_t workOfAttempt = 0, work = 0;
  static constexpr int64_t kMaxWork = 60'000'000;
  static constexpr int kMaxAttempts = 200;
};

// Pairs that live at one time, from a sweep over begins and ends.
void Planner::findConflicts() {
  conflicts.resize(items.size());
  std::vector<unsigned> active;
  for (const Event &event : sortedEvents(items)) {
    if (!event.begins) {
      active.erase(llvm::find(active, event.item));
      continue;
    }
    for (unsigned other : active) {
      conflicts[event.item].push_back(other);
      conflicts[other].push_back(event.item);
    }
    active.push_back(event.item);
  }
  bool meetOnce =
      all_of(items, [](const PlanItem &item) { return item.live.size() <= 1; });
  for (auto [index, list] : enumerate(conflicts)) {
    if (!meetOnce) {
      llvm::sort(list);
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
    if (index >= placed)
      workOfAttempt += int64_t(list.size());
  }
}

// Where the placed neighbours begin and end, in order. Those of an item that
// meets most others are found among all faster than they are sorted.
void Planner::findTaken(unsigned item) {
  taken.clear();
  const std::vector<unsigned> &others = conflicts[item];
  auto take = [&](unsigned other) {
    taken.push_back({offsets[other], offsets[other] + sizes[other]});
  };
  if (byOffset.size() < others.size() * Log2_64_Ceil(others.size() + 1)) {
    for (unsigned other : others)
      meets[other] = item;
    for (unsigned other : byOffset)
      if (meets[other] == item)
        take(other);
    return;
  }
  for (unsigned other : others)
    if (offsets[other] >= 0)
      take(other);
  llvm::sort(taken);
}

// The smallest gap among the placed neighbours that holds the item, else the
// end of the highest.
int64_t Planner::bestFit(unsigned item) {
  findTaken(item);
  int64_t end = 0, bestOffset = -1, bestGap = INT64_MAX;
  for (auto [begin, last] : taken) {
    int64_t gap = begin - end;
    if (gap >= sizes[item] && gap < bestGap) {
      bestGap = gap;
      bestOffset = end;
    }
    end = std::max(end, last);
  }
  return bestOffset >= 0 ? bestOffset : end;
}

void Planner::put(unsigned item, int64_t offset) {
  offsets[item] = offset;
  auto place = [&](unsigned other) {
    return std::pair(offsets[other], sizes[other]);
  };
  auto at = llvm::upper_bound(byOffset, item, [&](unsigned a, unsigned b) {
    return place(a) < place(b);
  });
  byOffset.insert(at, item);
}

// The bytes that it takes, unless they are more than those of the best.
std::optional<int64_t> Planner::place(const Order &order) {
  work += workOfAttempt;
  offsets.assign(items.size(), -1);
  meets.assign(items.size(), unsigned(items.size()));
  byOffset.clear();
  int64_t bytes = 0;
  for (size_t item = 0; item < placed; ++item) {
    put(item, items[item].offset);
    bytes = std::max(bytes, offsets[item] + sizes[item]);
  }
  for (unsigned item : order) {
    put(item, bestFit(item));
    bytes = std::max(bytes, offsets[item] + sizes[item]);
    if (bytes > bestBytes)
      return std::nullopt;
  }
  return bytes;
}

// Places in this order; keeps the result when no plan was better.
bool Planner::attempt(Order order) {
  std::optional<int64_t> bytes = place(order);
  if (!bytes)
    return false;
  bool better = *bytes < bestBytes;
  bestBytes = *bytes;
  best = offsets;
  bestOrder = std::move(order);
  return better;
}

Planner::Order Planner::sortedBy(function_ref<double(unsigned)> key) const {
  Order order(items.size() - placed);
  std::iota(order.begin(), order.end(), unsigned(placed));
  std::vector<double> keys(items.size());
  for (unsigned item : order)
    keys[item] = key(item);
  llvm::stable_sort(order,
                    [&](unsigned a, unsigned b) { return keys[a] > keys[b]; });
  return order;
}

// What stands at the top was placed too late: move it (or, every other time,
// an item chosen at random) nearer to the front.
void Planner::improve() {
  std::mt19937 random(20231); // a fixed seed: the same plan on every machine
  for (int i = 0; i < kMaxAttempts; ++i) {
    if (bestBytes == lowerBound || work > kMaxWork)
      return;
    Order order = bestOrder;
    size_t from = random() % order.size();
    if (i % 2 == 0)
      for (size_t k = 0; k < order.size(); ++k)
        if (best[order[k]] + sizes[order[k]] == bestBytes)
          from = k;
    size_t to = from == 0 ? 0 : (i % 4 == 0 ? 0 : random() % from);
    std::rotate(order.begin() + to, order.begin() + from,
                order.begin() + from + 1);
    attempt(std::move(order));
  }
}

PlanSummary Planner::run(PlanOrder first) {
  PlanSummary summary = measureItems(items);
  if (items.size() == placed)
    return {*place({}), summary.lowerBound, summary.peakTime};
  lowerBound = summary.lowerBound;
  auto lifetime = [&](unsigned item) {
    double sum = 0;
    for (LiveRange range : items[item].live)
      sum += double(range.end - range.begin);
    return sum;
  };
  auto bySize = [&](unsigned i) { return double(sizes[i]); };
  auto byArea = [&](unsigned i) { return double(sizes[i]) * lifetime(i); };
  auto byBegin = [&](unsigned i) {
    return items[i].live.empty() ? 0.0 : -double(items[i].live[0].begin);
  };
  using Key = function_ref<double(unsigned)>;
  Key keys[] = {bySize, byArea, lifetime, byBegin};
  if (first == PlanOrder::Lifetime)
    std::rotate(keys, keys + 2, keys + 3);
  for (Key key : keys)
    if (bestBytes != lowerBound)
      attempt(sortedBy(key));
  improve();
  for (auto [item, offset] : zip(items, best))
    item.offset = offset;
  summary.bytes = bestBytes;
  return summary;
}

// Plans that were made before. A budget is kept by trying: some hundred trials
// plan the same buffers, of which few differ.
class PlanMemo {
public:
  static std::vector<int64_t> describe(ArrayRef<PlanItem> items, size_t placed,
                                       PlanOrder first);
  /// Sets the offsets, where the problem was solved before.
  std::optional<PlanSummary> find(ArrayRef<int64_t> problem,
                                  MutableArrayRef<PlanItem> items);
  void keep(std::vector<int64_t> problem, ArrayRef<PlanItem> items,
            const PlanSummary &summary);

private:
  struct Plan {
    std::vector<int64_t> problem, offsets;
    PlanSummary summary;
  };
  std::mutex mutex; // passes on several modules
  std::deque<Plan> plans;
  static constexpr size_t kMost = 64; // of some thousand numbers each
};

std::vector<int64_t> PlanMemo::describe(ArrayRef<PlanItem> items, size_t placed,
                                        PlanOrder first) {
  std::vector<int64_t> problem = {int64_t(placed), int64_t(first)};
  for (auto [index, item] : enumerate(items)) {
    problem.push_back(item.bytes);
    problem.push_back(index < placed ? item.offset : 0);
    problem.push_back(int64_t(item.live.size()));
    for (LiveRange range : item.live) {
      problem.push_back(range.begin);
      problem.push_back(range.end);
    }
  }
  return problem;
}

std::optional<PlanSummary> PlanMemo::find(ArrayRef<int64_t> problem,
                                          MutableArrayRef<PlanItem> items) {
  std::lock_guard<std::mutex> lock(mutex);
  for (const Plan &plan : plans)
    if (ArrayRef(plan.problem) == problem) {
      for (auto [item, offset] : zip_equal(items, plan.offsets))
        item.offset = offset;
      return plan.summary;
    }
  return std::nullopt;
}

void PlanMemo::keep(std::vector<int64_t> problem, ArrayRef<PlanItem> items,
                    const PlanSummary &summary) {
  Plan plan = {std::move(problem), {}, summary};
  for (const PlanItem &item : items)
    plan.offsets.push_back(item.offset);
  std::lock_guard<std::mutex> lock(mutex);
  plans.push_front(std::move(plan));
  if (plans.size() > kMost)
    plans.pop_back();
}

} // namespace

PlanSummary measureItems(ArrayRef<PlanItem> items) {
  PlanSummary summary;
  int64_t live = 0;
  for (const Event &event : sortedEvents(items)) {
    int64_t bytes = alignedBytes(items[event.item]);
    live += event.begins ? bytes : -bytes;
    if (live > summary.lowerBound) {
      summary.lowerBound = live;
      summary.peakTime = event.time;
    }
  }
  return summary;
}

// What is live never overlaps, so a new item need only look at its neighbours.
std::optional<std::pair<unsigned, unsigned>>
findOverlap(ArrayRef<PlanItem> items) {
  std::map<int64_t, unsigned> active; // by offset
  for (const Event &event : sortedEvents(items)) {
    const PlanItem &item = items[event.item];
    if (item.bytes == 0)
      continue;
    if (!event.begins) {
      active.erase(item.offset);
      continue;
    }
    auto next = active.lower_bound(item.offset);
    if (next != active.end() && next->first < item.offset + item.bytes)
      return std::pair(next->second, event.item);
    if (next != active.begin()) {
      auto previous = std::prev(next);
      if (previous->first + items[previous->second].bytes > item.offset)
        return std::pair(previous->second, event.item);
    }
    active.emplace(item.offset, event.item);
  }
  return std::nullopt;
}

PlanSummary planOffsets(MutableArrayRef<PlanItem> items, size_t placed,
                        PlanOrder first) {
  static PlanMemo memo;
  std::vector<int64_t> problem = PlanMemo::describe(items, placed, first);
  if (std::optional<PlanSummary> known = memo.find(problem, items))
    return *known;
  PlanSummary summary = Planner(items, placed).run(first);
  memo.keep(std::move(problem), items, summary);
  return summary;
}

} // namespace shardonnx::exec
