// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "StepWalk.h"

#include "shardonnx/Cost/MemoryTraffic.h"
#include "shardonnx/runtime/MemoryPlan.h"
#include "shardonnx/runtime/NewtonSchulzPlan.h"

#include <algorithm>
#include <numeric>

namespace shardonnx {

double StepWalk::gatherSeconds(const Manifest::Unit &unit, bool nearby) const {
  if (!unit.sharded)
    return 0;
  // In place nothing is copied: ranks meet.
  double bytes = unit.gatherInPlace ? 0 : double(unit.sentBytes());
  int64_t ranks =
      nearby ? std::min(unit.reshardGroup, group.ranks) : group.ranks;
  return device.gatherSeconds(bytes, {ranks, group.stride});
}

// Every rank of a machine sums with its like on the other machines, over its
// own network card.
double StepWalk::replicaSeconds(const Manifest::Unit &unit) const {
  if (!unit.sharded || replicas == 1)
    return 0;
  double owned = double(unit.length) * sizeof(float) / double(group.ranks);
  int64_t abreast = std::max<int64_t>(
      1, device.perMachine == 0
             ? 1
             : std::min(device.perMachine, group.ranks * group.stride));
  return device.allReduceSeconds(owned * double(abreast), replicas * abreast);
}

double StepWalk::reduceSeconds(const Manifest::Unit &unit) const {
  double bytes = double(unit.gradientBytes());
  if (!unit.sharded)
    return device.allReduceSeconds(bytes,
                                   {group.ranks * replicas, group.stride});
  return device.reduceScatterSeconds(bytes, group) + replicaSeconds(unit);
}

double StepWalk::memorySeconds(double bytes) const {
  if (const auto &rates = half() ? device.halfRates : device.f32Rates)
    return bytes / rates->sliceBytes;
  return device.workSeconds(0, bytes, half()) /
         (play.as ? play.as->memoryShare : 1);
}

double StepWalk::optimizerBytes(const Manifest::Unit &unit) const {
  if (play.as)
    return ownedElements(unit, topology) * play.as->optimizerBytes;
  return shardonnx::optimizerBytes(m, unit, topology);
}

// Of a rank's part of the unit's matrices, which are shared out evenly.
double StepWalk::newtonSchulzSeconds(const Manifest::Unit &unit) const {
  if (play.as || unit.matrixLength == 0)
    return 0;
  double flops = 0;
  for (const Manifest::Param &param : unit.params)
    if (unit.isMatrix(param)) {
      std::vector<int64_t> whole = param.wholeShape();
      flops += newtonSchulzFlops(whole[0], whole[1]) /
               (param.split ? topology.tensor : 1);
    }
  return products.workSeconds(flops / topology.groupHere(), 0, /*half=*/true);
}

// Of the gradients whose squares no sum has taken.
double StepWalk::normBytes() const {
  double bytes = 0;
  for (const Manifest::Unit &unit : m.units)
    if (!play.as && !squaresWithSum(m, unit, topology, play.microbatches))
      bytes += double(unit.length) / double(unit.sharded ? group.ranks : 1) *
               sizeof(float);
  return bytes;
}

// With several ranks products of this runtime leave the multiprocessors of one
// queue's collectives alone, whether these run or not.
Device StepWalk::productDevice() const {
  Device left = device;
  if (play.as || topology.ranks == 1)
    return left;
  left.multiprocessors -= device.collectiveMultiprocessors;
  double share = left.multiprocessors / device.multiprocessors;
  left.f32Flops *= share;
  left.halfFlops *= share;
  left.f8Flops *= share;
  return left;
}

// Each queue that sends has multiprocessors of its own, and the work so many
// less. Products have left those of one queue alone anyway.
double StepWalk::slowed(double seconds, double ofProducts, double clock) const {
  // What delays a framework has been fitted as a whole.
  if (play.as || device.collectiveMultiprocessors <= 0)
    return seconds;
  double all = device.multiprocessors, taken = device.collectiveMultiprocessors;
  std::array<double, 3> until = {gatherQueue, reduceQueue, axisQueue};
  std::sort(until.begin(), until.end());
  double passed = 0;
  for (size_t queues = until.size(); queues > 0; --queues) {
    double left = all - taken * double(queues);
    double slower = (1 - ofProducts) * all / left +
                    ofProducts * products.multiprocessors /
                        std::min(products.multiprocessors, left);
    double span = std::max(0.0, until[until.size() - queues] - clock - passed);
    if (seconds * slower <= span)
      return passed + seconds * slower;
    seconds -= span / slower;
    passed += span;
  }
  return passed + seconds;
}

void StepWalk::work(double seconds, double ofProducts) {
  double taken = slowed(seconds, ofProducts, now);
  step.work += taken;
  now += taken;
  late += slowed(seconds * slower, ofProducts, late);
}

StepWalk::Work &StepWalk::Work::operator+=(const Work &other) {
  products += other.products;
  attention += other.attention;
  memory += other.memory;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    axes[axis] += other.axes[axis];
    started[axis] += other.started[axis];
  }
  return *this;
}

StepWalk::Work StepWalk::Work::operator*(double times) const {
  Work all{products * times, attention * times, memory * times, axes, started};
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    all.axes[axis] *= times;
    all.started[axis] *= times;
  }
  return all;
}

// As runtime/cuda does it (docs/cuda.md).
bool StepWalk::updatesBeside() const {
  return !play.as && m.cuda() && play.offload == Offload::None &&
         !m.hasMatrices() && m.f8Steps() == 0;
}

void StepWalk::passUpdates(double begin, double rate) {
  updates.pass(begin, now, rate, [&](const Span &span) {
    functions.back().others.push_back(span);
  });
}

// The work waits for the unit's optimizer, or with -1 for all that are left:
// they have memory to themselves.
void StepWalk::finishUpdate(int64_t unit) {
  double seconds = updates.until(unit);
  if (seconds <= 0)
    return;
  double begin = now;
  step.memory += seconds;
  work(seconds);
  passUpdates(begin, seconds / (now - begin));
}

void StepWalk::work(const Work &parts) {
  // Of memory's speed, what products and attention leave to optimizers beside
  // them; everything else leaves nothing. Their blocks fill the processors, so
  // that optimizers run in the gaps: of 15.3 ms of GPT-2 1.5B's on an H100 13.7
  // were seen with nothing beside them (benchmarks/README.md, 2026-11-26), and
  // 1.6 beside 85 ms.
  constexpr double kLeft = 0.02;
  step.products += parts.products;
  step.attention += parts.attention;
  step.memory += parts.memory;
  double seconds = parts.seconds(), begin = now;
  work(seconds, seconds > 0 ? parts.products / seconds : 0);
  if (now > begin)
    passUpdates(begin,
                kLeft * (parts.products + parts.attention) / (now - begin));
  sendAlongAxes(parts, begin);
}

// What of the links the queues take in the meantime slows both down: each sends
// as much later as the other has sent.
void StepWalk::shareLinks(double &seconds, MeshAxis axis, double busy) {
  double longer =
      seconds * busy * device.shareTaken(axisGroup(axis, m.mesh), group);
  if (longer <= 0)
    return;
  auto postpone = [&](double &end) {
    if (end > now)
      end += longer;
  };
  for (std::vector<double> *ends : {&gathered, &reduced})
    std::for_each(ends->begin(), ends->end(), postpone);
  for (double *end : {&gatherQueue, &reduceQueue, &wire})
    postpone(*end);
  for (FunctionSchedule &function : functions)
    for (Span &span : function.others)
      if (span.queue == Span::Gather || span.queue == Span::Reduce)
        postpone(span.end);
  seconds += longer;
}

// The same of a unit's collective that begins beside one along an axis.
void StepWalk::shareLinksWithAxis(double &seconds, double begin) {
  if (along.empty() || axisQueue <= begin)
    return;
  MeshAxis axis = along.back().axis;
  double longer = std::min(seconds, axisQueue - begin) *
                  device.shareTaken(axisGroup(axis, m.mesh), group);
  seconds += longer;
  axisQueue += longer;
  along.back().end += longer;
}

// The work's collectives along axes are spread over it, and it waits for each.
void StepWalk::sendAlongAxes(const Work &parts, double begin) {
  double sent = std::accumulate(parts.axes.begin(), parts.axes.end(), 0.0);
  if (sent <= 0)
    return;
  double busy = std::clamp((wire - begin) / (now - begin + sent), 0.0, 1.0);
  for (size_t axis = 0; axis < parts.axes.size(); ++axis) {
    double seconds = parts.axes[axis];
    shareLinks(seconds, static_cast<MeshAxis>(axis), busy);
    step.exposed += seconds;
    step.exposedByAxis[axis] += seconds;
    now += seconds;
    late += seconds;
  }
}

// Behind what its queue has, when the last rank has come.
void StepWalk::startAlong(const Work &before) {
  auto axis = static_cast<MeshAxis>(
      std::max_element(before.started.begin(), before.started.end()) -
      before.started.begin());
  double seconds = before.started[size_t(axis)];
  double begin = std::max({axisQueue, now, late});
  if (seconds > 0)
    shareLinks(seconds, axis, std::clamp((wire - begin) / seconds, 0.0, 1.0));
  axisQueue = begin + seconds;
  along.push_back({axis, axisQueue});
  functions.back().others.push_back({Span::Axis, -1, begin, axisQueue, axis});
}

void StepWalk::waitAlong() {
  if (along.empty())
    return;
  Along first = along.front();
  along.pop_front();
  step.exposedByAxis[size_t(first.axis)] += waitUntil(first.end, -1);
}

void StepWalk::endStep() {
  if (!play.as)
    return;
  step.host += play.as->stepSeconds;
  work(play.as->stepSeconds);
}

// Work that a collective holds up although nobody waits for its result.
void StepWalk::delay(size_t unit, double collective, double ofReplicas) {
  if (play.as)
    wait(unit, now + play.as->unhidden * collective,
         play.as->unhidden * ofReplicas);
}

// All ranks stand still until then; returns for how long.
double StepWalk::waitUntil(double until, int64_t unit) {
  double waited = std::max(0.0, until - now);
  if (waited > 0)
    record(Span::Wait, unit, now, until);
  step.exposed += waited;
  now += waited;
  passUpdates(now - waited, 1);
  late = std::max(late, until);
  return waited;
}

// Of the time until then, the last seconds go to what replicas sum up.
void StepWalk::wait(size_t unit, double until, double ofReplicas) {
  double waited = waitUntil(until, static_cast<int64_t>(unit));
  step.units[unit].exposed += waited;
  auto &byAxis = step.exposedByAxis;
  byAxis[size_t(MeshAxis::Replicate)] += std::min(waited, ofReplicas);
  byAxis[size_t(MeshAxis::Shard)] += waited - std::min(waited, ofReplicas);
}

// A collective starts when its queue is free and the last rank has come; what
// is sent shares the links with the other queue.
double StepWalk::start(double &queue, double seconds) {
  double begin = std::max({queue, now, late});
  if (!device.sharedMemory && seconds > 0) {
    double latency = std::min(
        seconds, device.latencySeconds({group.ranks * replicas, group.stride}));
    double sending = std::max(begin + latency, wire);
    shareLinksWithAxis(seconds, sending);
    wire = sending + seconds - latency;
    return queue = wire;
  }
  return queue = begin + seconds;
}

// Both directions have a queue of their own, and the links to the host are
// nobody else's while a microbatch runs.
void StepWalk::hostCopy(const Manifest::Collective &call) {
  bool isAway = call.op == "offload_start";
  if (isAway || call.op == "reload_start") {
    double &queue = isAway ? awayQueue : backQueue;
    double begin = std::max(queue, now);
    queue = begin + device.hostCopySeconds(double(call.copiedBytes));
    copied[call.copy] = queue;
    record(isAway ? Span::Offload : Span::Reload, -1, begin, queue);
    return;
  }
  step.copies += waitUntil(copied[call.copy], -1);
}

void StepWalk::call(const Manifest::Collective &call) {
  if (call.copy >= 0)
    return hostCopy(call);
  if (call.op == "clip_grad_norm")
    workBetween({0, 0, memorySeconds(normBytes())});
  if (call.op == "axis_wait")
    waitAlong();
  if (call.unit < 0)
    return;
  auto index = static_cast<size_t>(call.unit);
  const Manifest::Unit &unit = m.units[index];
  UnitExposure &exposure = step.units[index];
  if (call.op == "gather_start") {
    double seconds = gatherSeconds(unit, resharded[index]);
    exposure.gather += seconds;
    if (double before = updates.until(call.unit); before > 0 && unit.sharded)
      gatherQueue = std::max(gatherQueue, now + before);
    double end = gathered[index] = start(gatherQueue, seconds);
    record(Span::Gather, call.unit, end - seconds, end);
    delay(index, seconds);
  } else if (call.op == "gather_wait") {
    finishUpdate(call.unit);
    wait(index, gathered[index]);
    resharded[index] = false;
  } else if (call.op == "gather_reshard") {
    resharded[index] = !device.sharedMemory;
  } else if (call.op == "reduce_start") {
    double seconds = reduceSeconds(unit);
    exposure.reduce += seconds;
    double end = reduced[index] = start(reduceQueue, seconds);
    record(Span::Reduce, call.unit, end - seconds, end);
    delay(index, seconds, replicaSeconds(unit));
  } else if (call.op == "reduce_wait") {
    wait(index, reduced[index], replicaSeconds(unit));
  } else if (call.op == "grad_acquire") {
    finishUpdate(-1);
  } else if (call.op == "optimizer" && updatesBeside()) {
    updates.add(call.unit, memorySeconds(optimizerBytes(unit)));
  } else if (call.op == "optimizer") {
    double begin = now;
    work(Work{newtonSchulzSeconds(unit), 0,
              memorySeconds(optimizerBytes(unit))});
    record(Span::Work, call.unit, begin, now);
  }
}

StepWalk::Work StepWalk::launchWork(const Manifest::Launch &launch,
                                    Manifest::Phase phase) const {
  double seconds = launchSeconds(m, launch, phase,
                                 launch.kind == "product" ? products : device,
                                 play.as ? play.as->attention : kOwnAttention);
  if (auto sent = axisLaunch(launch, m.mesh)) {
    double sending = linkSeconds(*sent, device);
    Work work{0, 0, (seconds - sending) / (play.as ? play.as->memoryShare : 1)};
    // A framework's collectives wait for each other and for the work.
    (sent->started && !play.as ? work.started : work.axes)[size_t(sent->axis)] =
        sending;
    return work;
  }
  if (!play.as) {
    if (launch.kind == "product")
      return {seconds, 0, 0};
    if (launch.kind == "attention")
      return {0, seconds, 0};
    return {0, 0, seconds};
  }
  if (launch.kind == "product")
    return {seconds / play.as->productShare, 0, 0};
  if (launch.kind == "attention")
    return {0, seconds / play.as->attentionShare, 0};
  if (launch.kind == "loss") {
    double products = device.workSeconds(launch.flops, 0, half());
    double logits = play.eager ? play.eager->logits : 0;
    return {products / play.as->productShare, 0,
            memorySeconds(play.as->logitBytes * logits)};
  }
  if (play.as->eager && launch.kind != "embedding")
    return {};
  return {0, 0, seconds / play.as->memoryShare};
}

// What moves through memory beside products is spread over the products of its
// unit and phase. Where no product runs again, nothing of the forward does.
void StepWalk::addEager(const Manifest::Function &function,
                        std::vector<Work> &segments) const {
  std::map<std::pair<int64_t, Manifest::Phase>, double> sums;
  std::map<int64_t, size_t> last;
  auto weightOf = [&](const Manifest::LaunchRun &run) {
    return double(run.count) *
           launchWork(m.launches[run.launch], run.phase).products;
  };
  for (const Manifest::LaunchRun &run : function.launches) {
    sums[{run.unit, run.phase}] += weightOf(run);
    last[run.unit] = run.behind;
  }
  auto bytesOf = [&](int64_t unit, Manifest::Phase phase) {
    if (unit < 0 || size_t(unit) >= play.eager->units.size())
      return 0.0;
    const EagerTraffic::Unit &moved = play.eager->units[size_t(unit)];
    return phase == Manifest::Phase::Backward ? moved.backward : moved.forward;
  };
  for (const Manifest::LaunchRun &run : function.launches)
    if (double sum = sums[{run.unit, run.phase}]; sum > 0)
      segments[run.behind].memory +=
          weightOf(run) / sum * memorySeconds(bytesOf(run.unit, run.phase));
  for (const auto &[unit, behind] : last)
    for (Manifest::Phase phase :
         {Manifest::Phase::Forward, Manifest::Phase::Backward})
      if (sums[{unit, phase}] == 0)
        segments[behind].memory += memorySeconds(bytesOf(unit, phase));
}

// Before each product of a unit's backward its part of what is computed again.
void StepWalk::addSelective(const Manifest::Function &function,
                            std::vector<Work> &segments) const {
  std::map<int64_t, Work> forward;
  std::map<int64_t, double> backward;
  for (const Manifest::LaunchRun &run : function.launches) {
    Work once = launchWork(m.launches[run.launch], run.phase);
    auto times = double(run.count);
    if (run.phase == Manifest::Phase::Backward)
      backward[run.unit] += times * once.products;
    else
      forward[run.unit] += {times * once.products, 0, times * once.memory};
  }
  for (const Manifest::LaunchRun &run : function.launches) {
    if (run.phase != Manifest::Phase::Backward || run.unit < 0)
      continue;
    const EagerTraffic::Unit &unit = play.eager->units[size_t(run.unit)];
    double all = backward[run.unit];
    if (!unit.block || all <= 0)
      continue;
    double part = double(run.count) *
                  launchWork(m.launches[run.launch], run.phase).products / all;
    const Work &again = forward[run.unit];
    segments[run.behind] +=
        {part * unit.again * again.products, 0,
         part * (play.as->eager ? memorySeconds(unit.forward) : again.memory)};
  }
}

// Before each call, and behind the last one.
std::vector<StepWalk::Work>
StepWalk::workOf(const Manifest::Function &function) const {
  std::vector<Work> segments;
  if (function.launches.empty()) {
    for (const Manifest::Collective &call : function.collectives)
      segments.push_back(
          {0, 0, device.workSeconds(call.flops, call.bytes, half())});
    segments.push_back(
        {0, 0, device.workSeconds(function.flops, function.bytes, half())});
    return segments;
  }
  segments.resize(function.collectives.size() + 1);
  for (const Manifest::LaunchRun &run : function.launches) {
    segments[run.behind] +=
        launchWork(m.launches[run.launch], run.phase) * double(run.count);
  }
  if (play.as && play.eager && function.name != "update") {
    if (play.as->eager)
      addEager(function, segments);
    if (play.selective)
      addSelective(function, segments);
  }
  return segments;
}

void StepWalk::run(const std::string &name) {
  step.units.resize(m.units.size());
  for (const Manifest::Function &function : m.functions)
    if (function.name == name) {
      functions.push_back({&function, now, now, {}, {}});
      std::vector<Work> segments = workOf(function);
      for (size_t i = 0; i < function.collectives.size(); ++i) {
        workBetween(segments[i]);
        if (function.collectives[i].op == "axis_start")
          startAlong(segments[i]);
        else
          call(function.collectives[i]);
      }
      workBetween(segments.back());
      functions.back().end = now;
    }
}

} // namespace shardonnx
