// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Watchdog.h.

#include "Watchdog.h"
#include <algorithm>
#include <unistd.h>
#include <utility>

namespace shardonnx::rt::cuda {
namespace {

constexpr useconds_t kMicrosecondsBetweenLooks = 100'000;
// When a rank dies the others' NCCL may notice before its machine tells.
constexpr double kSecondsForTheCause = 5;

} // namespace

Watchdog::Watchdog(Control &control, std::function<std::string()> asyncError)
    : control(control), asyncError(std::move(asyncError)),
      words(static_cast<int64_t>((kQueues + 1) * sizeof(Word)),
            "the watchdog's words"),
      collectives(1) {
  thread = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  stopping.store(true);
  thread.join();
}

void Watchdog::beginFunction(const char *name, int64_t step) {
  std::lock_guard<std::mutex> lock(mutex);
  function = name;
  ordinal = 0;
  expected.push_back({++sequence, function, step});
}

void Watchdog::endFunction(CUstream stream) {
  write(stream, kQueues, sequence);
}

Watchdog::Station Watchdog::station(Activity activity, size_t unit,
                                    size_t queue, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  Stations &known = stations[function];
  if (ordinal == known.size()) {
    known.push_back(static_cast<Station>(collectives.size()));
    collectives.push_back({activity, unit, queue, bytes});
  }
  return known[ordinal++];
}

uint32_t Watchdog::read(size_t word) const {
  auto *line = reinterpret_cast<const Word *>(words.data()) + word;
  return __atomic_load_n(&line->value, __ATOMIC_ACQUIRE);
}

void Watchdog::write(CUstream stream, size_t word, uint32_t value) {
  CUdeviceptr to = deviceAddress(words.data() + word * sizeof(Word));
  check(driver().cuStreamWriteValue32(stream, to, value,
                                      CU_STREAM_WRITE_VALUE_DEFAULT),
        "marking a collective");
}

void Watchdog::begin(CUstream stream, size_t queue, Station station) {
  write(stream, queue, station);
}
void Watchdog::end(CUstream stream, size_t queue) { write(stream, queue, 0); }

// ---- The flight recorder
// A look in a tenth of a second sees few collectives, but where a queue is, all
// that it was given before is over.

uint64_t Watchdog::issue(const Collective &one, int64_t step) {
  return control.recorder.issue(static_cast<uint32_t>(one.activity), one.unit,
                                step, one.bytes);
}

// Notes the queue's collectives of the function below `end` as done.
void Watchdog::recordUpTo(const Expected &function, size_t queue, size_t end) {
  const Stations &order = stations[function.function];
  for (size_t &at = progress[queue]; at < std::min(end, order.size()); ++at) {
    const Collective &one = collectives[order[at]];
    if (one.queue != queue)
      continue;
    uint64_t number = std::exchange(running[queue], 0);
    control.recorder.end(number != 0 ? number : issue(one, function.step));
  }
}

void Watchdog::record(const std::vector<uint32_t> &words) {
  std::lock_guard<std::mutex> lock(mutex);
  auto behind = [&](uint32_t sequence) {
    return static_cast<int32_t>(words[kQueues] - sequence) >= 0;
  };
  for (const Expected &function : expected) {
    if (function.sequence != noted) {
      noted = function.sequence;
      std::fill_n(progress, kQueues, 0);
    }
    const Stations &order = stations[function.function];
    if (behind(function.sequence)) {
      for (size_t queue = 0; queue < kQueues; ++queue)
        recordUpTo(function, queue, order.size());
      continue;
    }
    for (size_t queue = 0; queue < kQueues; ++queue) {
      auto at = std::find(order.begin(), order.end(), words[queue]);
      if (words[queue] == 0 || at == order.end())
        continue;
      recordUpTo(function, queue, static_cast<size_t>(at - order.begin()));
      const Collective &one = collectives[words[queue]];
      if (running[queue] == 0) {
        running[queue] = issue(one, function.step);
        control.recorder.begin(running[queue]);
      }
    }
    return; // the GPU is in none of those behind it
  }
}

// The oldest function that is not done. Sequence numbers wrap around.
bool Watchdog::outstanding(uint32_t done, Expected &first) {
  std::lock_guard<std::mutex> lock(mutex);
  while (!expected.empty() &&
         static_cast<int32_t>(done - expected.front().sequence) >= 0)
    expected.pop_front();
  if (expected.empty())
    return false;
  first = expected.front();
  return true;
}

void Watchdog::watch() {
  double since = monotonicSeconds(), errorSince = 0;
  std::vector<uint32_t> before;
  while (!stopping.load()) {
    ::usleep(kMicrosecondsBetweenLooks);
    std::vector<uint32_t> now;
    for (size_t word = 0; word <= kQueues; ++word)
      now.push_back(read(word));
    record(now);
    Expected first{};
    bool busy = outstanding(now[kQueues], first);
    if (!busy || now != before)
      since = monotonicSeconds();
    before = now;
    if (busy && monotonicSeconds() - since > control.timeout())
      reportHang(first);
    checkAsyncError(errorSince);
  }
}

// The first queue that is in a collective; none: the GPU computes, or a
// collective waits for that.
void Watchdog::reportHang(const Expected &first) {
  Collective hanging;
  std::string where =
      concat(" (", first.function, " of step ", first.step, ")");
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (size_t queue = 0; queue < kQueues; ++queue) {
      uint32_t station = read(queue);
      if (hanging.activity == Activity::Running && station != 0 &&
          station < collectives.size())
        hanging = collectives[station];
    }
  }
  // The others' sentences of the same moment tell of this one.
  control.setActivity(hanging.activity, hanging.unit);
  ::usleep(2 * kMicrosecondsBetweenLooks);
  control.reportHang(hanging.activity, hanging.unit, where);
}

void Watchdog::checkAsyncError(double &since) {
  std::string error = asyncError();
  if (error.empty())
    return;
  if (since == 0)
    since = monotonicSeconds();
  if (monotonicSeconds() - since > kSecondsForTheCause)
    control.failNow(control.rank(),
                    concat("rank ", control.rank(), ": NCCL failed: ", error),
                    kExitFailure);
}

} // namespace shardonnx::rt::cuda
