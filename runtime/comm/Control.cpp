// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Futex waits on one word that all ranks of the machine share.

#include "Control.h"
#include "../support/Error.h"
#include <algorithm>
#include <climits>
#include <csignal>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace shardonnx::rt {

static_assert(Counter::is_always_lock_free, "counters cross processes");

namespace {

constexpr double kLookAgainSeconds = 0.1;

void futexWait(std::atomic<uint32_t> &word, uint32_t seen) {
  timespec timeout{0, static_cast<long>(kLookAgainSeconds * 1e9)};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}
void futexWakeAll(std::atomic<uint32_t> &word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

const char *describe(Activity activity) {
  switch (activity) {
  case Activity::Running:
    return "computing";
  case Activity::Gather:
    return "waiting for the all-gather of unit";
  case Activity::GradientBuffer:
    return "waiting for the gradient buffer of unit";
  case Activity::Reduce:
    return "waiting for the reduce-scatter of unit";
  case Activity::Replicas:
    return "waiting for the all-reduce over the replicas of unit";
  case Activity::Optimizer:
    return "waiting to update unit";
  case Activity::Directions:
    return "waiting for the directions of the matrices of unit";
  case Activity::Matrices:
    return "waiting for the orthogonal matrices of unit";
  case Activity::Norm:
    return "waiting for the gradient norm";
  case Activity::Loss:
    return "waiting for the loss";
  case Activity::Steps:
    return "waiting for the largest weights";
  case Activity::Mesh:
    return "waiting for the ranks of an axis of the mesh";
  case Activity::Exchange:
    return "waiting for word from all ranks";
  case Activity::Connect:
    return "connecting the GPUs of all ranks";
  case Activity::Start:
    return "waiting for all ranks to load";
  case Activity::End:
    return "waiting for all ranks to end";
  }
  return "waiting";
}

// The same of a collective that is over.
const char *describeBehind(Activity activity) {
  switch (activity) {
  case Activity::Gather:
    return " behind the all-gather of unit";
  case Activity::GradientBuffer:
    return " behind the wait for the gradient buffer of unit";
  case Activity::Reduce:
    return " behind the reduce-scatter of unit";
  case Activity::Optimizer:
    return " behind the update of unit";
  case Activity::Directions:
    return " behind the directions of the matrices of unit";
  case Activity::Matrices:
    return " behind the orthogonal matrices of unit";
  case Activity::Norm:
    return " behind the gradient norm";
  case Activity::Loss:
    return " behind the loss";
  case Activity::Steps:
    return " behind the largest weights";
  case Activity::Mesh:
    return " behind a collective of an axis of the mesh";
  default:
    return "";
  }
}

bool namesUnit(Activity activity) {
  return activity == Activity::Gather || activity == Activity::GradientBuffer ||
         activity == Activity::Reduce || activity == Activity::Replicas ||
         activity == Activity::Optimizer || activity == Activity::Directions ||
         activity == Activity::Matrices;
}

} // namespace

double monotonicSeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

size_t Control::bytes(int ranks, size_t units) {
  auto n = static_cast<size_t>(ranks);
  return sizeof(ControlHeader) + n * sizeof(RankBlock) +
         n * units * sizeof(UnitCounters) + n * sizeof(FlightRing);
}

// Behind the counters.
static FlightRing *ringOf(uint8_t *memory, int ranks, size_t units, int rank) {
  size_t begin = Control::bytes(ranks, units) -
                 static_cast<size_t>(ranks) * sizeof(FlightRing);
  return reinterpret_cast<FlightRing *>(memory + begin) + rank;
}

// The memory is zero at first, which is the start of every atomic in it.
Control::Control(uint8_t *memory, int rank, int ranks,
                 const std::vector<std::string> &unitNames)
    : recorder(ringOf(memory, ranks, unitNames.size(), rank)),
      header(reinterpret_cast<ControlHeader *>(memory)),
      blocks(reinterpret_cast<RankBlock *>(memory + sizeof(ControlHeader))),
      counters(reinterpret_cast<UnitCounters *>(blocks + ranks)),
      rings(ringOf(memory, ranks, unitNames.size(), 0)), self(rank),
      count(ranks), units(unitNames.size()), names(unitNames) {
  blocks[rank].pid.store(::getpid());
}

void Control::publish(Counter &counter, uint64_t value) {
  counter.store(value, std::memory_order_release);
  notify();
}

// The order is the point: the change, then the sequence, then a look at the
// sleepers; a sleeper counts itself, reads the sequence, then looks for the
// change. One of the two sees the other.
void Control::notify() {
  header->sequence.fetch_add(1);
  if (header->sleepers.load() != 0)
    futexWakeAll(header->sequence);
}

Control::Sleep::Sleep(Control &control, Activity activity, size_t unit)
    : control(control), activity(activity), unit(unit),
      lookedAt(monotonicSeconds()) {
  if (activity == Activity::Running)
    return;
  control.setActivity(activity, unit);
  control.block(control.self).asleep.store(1);
}
Control::Sleep::~Sleep() {
  if (counted)
    control.header->sleepers.fetch_sub(1);
  if (activity == Activity::Running)
    return;
  control.block(control.self).asleep.store(0);
  control.setActivity(Activity::Running, 0);
}
uint32_t Control::Sleep::prepare() {
  if (!counted)
    control.header->sleepers.fetch_add(1);
  counted = true;
  return control.header->sequence.load();
}
void Control::Sleep::block(uint32_t seen) {
  futexWait(control.header->sequence, seen);
  // While this process itself was stopped, nobody kept it waiting.
  double now = monotonicSeconds();
  waited += std::min(now - lookedAt, 10 * kLookAgainSeconds);
  lookedAt = now;
  if (control.failed())
    control.follow();
  if (activity != Activity::Running &&
      waited > control.timeoutSeconds + control.reportDelay())
    control.reportHang(activity, unit);
}

void Control::setActivity(Activity activity, size_t unit) {
  RankBlock &mine = block(self);
  mine.activityUnit.store(static_cast<uint32_t>(unit));
  mine.activity.store(static_cast<uint32_t>(activity));
  noteLast(activity, unit);
}

RankStatus Control::status(int rank) {
  RankBlock &b = block(rank);
  return {b.step.load(), b.activity.load(), b.activityUnit.load(),
          b.last.load(), b.lastUnit.load()};
}

void Control::setStatus(int rank, const RankStatus &status) {
  RankBlock &b = block(rank);
  b.step.store(status.step);
  b.activity.store(status.activity);
  b.activityUnit.store(status.activityUnit);
  b.last.store(status.last);
  b.lastUnit.store(status.lastUnit);
}

std::string Control::activityOf(int rank) {
  RankStatus s = status(rank);
  auto named = [&](uint32_t activity, uint32_t unit) {
    bool known = namesUnit(static_cast<Activity>(activity)) && unit < units;
    return known ? " '" + names[unit] + "'" : std::string();
  };
  std::string text = describe(static_cast<Activity>(s.activity)) +
                     named(s.activity, s.activityUnit);
  if (s.activity == static_cast<uint32_t>(Activity::Running))
    text += describeBehind(static_cast<Activity>(s.last)) +
            named(s.last, s.lastUnit);
  if (s.step > 0)
    text += concat(", in step ", s.step);
  return text;
}

// Nobody is left who could wake another.
bool Control::everybodySleeps() {
  for (int r = 0; r < count; ++r)
    if (!block(r).asleep.load() || block(r).jobs.load())
      return false;
  return true;
}

// The rank that is not waiting, or waits for something else, is the one to
// look at.
void Control::reportHang(Activity activity, size_t unit,
                         const std::string &where) {
  std::string others;
  int64_t step = block(self).step.load();
  for (int r = 0; r < count; ++r) {
    RankStatus theirs = status(r);
    bool same = theirs.activity == static_cast<uint32_t>(activity) &&
                theirs.activityUnit == unit && theirs.step == step;
    if (r == self || same)
      continue;
    if (isLocal(r))
      others += concat("; rank ", r, " (process ", block(r).pid.load(), ") is ",
                       activityOf(r));
    else if (block(r).beats.load()) // as its machine last told
      others +=
          concat("; rank ", r, " (of another machine) is ", activityOf(r));
  }
  std::string what = describe(activity);
  if (namesUnit(activity) && unit < units)
    what += " '" + names[unit] + "'";
  if (!where.empty())
    what += where;
  else if (step > 0)
    what += concat(", in step ", step, ",");
  failNow(self,
          concat("rank ", self, " has been ", what, " for ", timeoutSeconds,
                 " s", others, "; --timeout SECONDS allows more"),
          kExitFailure);
}

bool Control::isLocal(int rank) const {
  const std::vector<int> &local = machines.localRanks;
  return local.empty() ||
         std::find(local.begin(), local.end(), rank) != local.end();
}

void Control::barrier(Activity activity) {
  if (machines.barrier)
    return machines.barrier(activity);
  uint64_t turn = ++barriers;
  publish(block(self).barrier, turn);
  wait(activity, 0, false, [&] {
    for (int r = 0; r < count; ++r)
      if (block(r).barrier.load(std::memory_order_acquire) < turn)
        return false;
    return true;
  });
}

bool Control::claimFailure(int rank) {
  ++reporters; // first, so that no other thread of ours leaves meanwhile
  int32_t none = 0;
  bool first = header->failedRank.compare_exchange_strong(none, rank + 1);
  notify();
  if (!first)
    --reporters;
  return first;
}

std::string Control::keepFlights(int rank, const std::string &cause) {
  if (flightRecord.empty() || count == 1)
    return "";
  return writeFlightRecord(*this, flightRecord, rank, cause);
}

void Control::failNow(int rank, const std::string &message, int code,
                      int toLauncher) {
  if (!claimFailure(rank))
    follow();
  std::string record = code == kExitFailure ? keepFlights(rank, message) : "";
  if (toLauncher != 0 && launchedByUs) {
    std::string note = activityOf(rank) + "\n" + record;
    (void)!::pwrite(launcherNote, note.data(), note.size(), 0);
    exitProcess(toLauncher);
  }
  if (machines.announceFailure)
    machines.announceFailure(rank);
  printError(message + record);
  exitProcess(code);
}

void Control::setBeforeExit(const void *owner, std::function<void()> call) {
  std::lock_guard<std::mutex> lock(leaving);
  beforeExit.erase(
      std::remove_if(beforeExit.begin(), beforeExit.end(),
                     [&](const auto &entry) { return entry.first == owner; }),
      beforeExit.end());
  if (call)
    beforeExit.emplace_back(owner, std::move(call));
}

void Control::exitProcess(int code) {
  leaving.lock(); // for good: one thread leaves, others wait for the end
  if (int pid = toKill.load())
    ::kill(pid, SIGKILL);
  for (auto it = beforeExit.rbegin(); it != beforeExit.rend(); ++it)
    it->second();
  ::_exit(code);
}

void Control::follow() {
  while (reporters.load() != 0) // another thread of this process is speaking
    ::usleep(1000);
  if (machines.announceFailure)
    machines.announceFailure(failedRank());
  exitProcess(launchedByUs ? kExitFollows : kExitFailure);
}

void Control::followRemote(int rank) {
  if (claimFailure(rank)) {
    keepFlights(rank, concat("rank ", rank, " of another machine failed"));
    --reporters; // it is told already
  }
  follow();
}

} // namespace shardonnx::rt
