// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See FlightRecorder.h.

#include "FlightRecorder.h"
#include "../support/Error.h"
#include "Control.h"
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

namespace shardonnx::rt {
namespace {

using Json = nlohmann::ordered_json;

int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

const char *collectiveOf(Activity activity) {
  switch (activity) {
  case Activity::Gather:
    return "all-gather";
  case Activity::Reduce:
    return "reduce-scatter";
  case Activity::Replicas:
    return "all-reduce over replicas";
  case Activity::Directions:
    return "matrices to their owners";
  case Activity::Matrices:
    return "orthogonal matrices";
  case Activity::Norm:
    return "gradient norm";
  case Activity::Loss:
    return "loss";
  case Activity::Steps:
    return "largest weights";
  case Activity::Mesh:
    return "mesh axis";
  default:
    return "exchange";
  }
}

// Seconds before the end of the run.
Json before(int64_t end, int64_t time) {
  if (time == 0)
    return nullptr;
  return static_cast<double>(end - time) * 1e-9;
}

Json describe(const FlightEntry &entry, int64_t end,
              const std::vector<std::string> &units) {
  auto activity = static_cast<Activity>(entry.activity.load());
  uint32_t unit = entry.unit.load();
  bool ofUnit = activity != Activity::Norm && activity != Activity::Loss &&
                activity != Activity::Steps && activity != Activity::Mesh;
  Json json;
  json["number"] = entry.number.load();
  json["step"] = entry.step.load();
  json["collective"] = collectiveOf(activity);
  json["unit"] = ofUnit && unit < units.size() ? Json(units[unit]) : Json();
  json["bytes"] = entry.bytes.load();
  json["state"] = entry.ended.load() != 0   ? "done"
                  : entry.begun.load() != 0 ? "running"
                                            : "issued";
  json["issued_s"] = before(end, entry.issued.load());
  json["begun_s"] = before(end, entry.begun.load());
  json["ended_s"] = before(end, entry.ended.load());
  return json;
}

Json describe(const FlightRing &ring, int64_t end,
              const std::vector<std::string> &units) {
  Json list = Json::array();
  uint64_t last = ring.issued.load();
  uint64_t first =
      last > FlightRing::kEntries ? last - FlightRing::kEntries : 0;
  for (uint64_t number = first + 1; number <= last; ++number) {
    const FlightEntry &entry = ring.entries[number % FlightRing::kEntries];
    if (entry.number.load() == number) // else it is being written
      list.push_back(describe(entry, end, units));
  }
  return list;
}

std::string timeOfDay() {
  std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// Nothing of it is there until all of it is. A device or a pipe is written to,
// not replaced.
bool writeWhole(const std::string &path, const std::string &text) {
  struct stat old{};
  bool stays = ::stat(path.c_str(), &old) == 0 && !S_ISREG(old.st_mode);
  std::string part = stays ? path : concat(path, ".", ::getpid());
  std::FILE *file = std::fopen(part.c_str(), "wb");
  if (!file)
    return false;
  bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  whole = std::fclose(file) == 0 && whole;
  if (stays)
    return whole;
  if (whole && std::rename(part.c_str(), path.c_str()) == 0)
    return true;
  std::remove(part.c_str());
  return false;
}

} // namespace

FlightEntry *FlightRecorder::find(uint64_t number) {
  FlightEntry &entry = ring->entries[number % FlightRing::kEntries];
  return number != 0 && entry.number.load() == number ? &entry : nullptr;
}

uint64_t FlightRecorder::issue(uint32_t activity, size_t unit, int64_t step,
                               int64_t bytes) {
  uint64_t number = ring->issued.load() + 1;
  FlightEntry &entry = ring->entries[number % FlightRing::kEntries];
  entry.number.store(0);
  entry.activity.store(activity);
  entry.unit.store(static_cast<uint32_t>(unit));
  entry.step.store(step);
  entry.bytes.store(bytes);
  entry.begun.store(0);
  entry.ended.store(0);
  entry.issued.store(now());
  entry.number.store(number);
  ring->issued.store(number);
  return number;
}

void FlightRecorder::begin(uint64_t number) {
  FlightEntry *entry = find(number);
  if (entry && entry->begun.load() == 0)
    entry->begun.store(now());
}

void FlightRecorder::end(uint64_t number) {
  begin(number);
  FlightEntry *entry = find(number);
  if (entry && entry->ended.load() == 0)
    entry->ended.store(now());
}

std::string writeFlightRecord(Control &control, const std::string &path,
                              int failedRank, const std::string &cause) {
  int64_t end = now();
  Json ranks = Json::array();
  bool any = false;
  for (int r = 0; r < control.ranks(); ++r) {
    if (!control.isLocal(r))
      continue;
    Json list = describe(control.flights(r), end, control.unitNames());
    any |= !list.empty();
    ranks.push_back({{"rank", r},
                     {"process", control.block(r).pid.load()},
                     {"step", control.status(r).step},
                     {"doing", control.activityOf(r)},
                     {"collectives", std::move(list)}});
  }
  if (!any)
    return "";
  char host[256] = {};
  ::gethostname(host, sizeof(host) - 1);
  Json file = {{"flight_record", 1},
               {"program", programName()},
               {"host", host},
               {"ended", timeOfDay()},
               {"world_size", control.ranks()},
               {"failed_rank", failedRank},
               {"cause", cause},
               {"ranks", std::move(ranks)}};
  std::string text =
      file.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (!writeWhole(path, text))
    return concat("; no flight record, '", path, "' cannot be written");
  return concat("; the ranks' last collectives are in '", path,
                "' (shardonnx inspect shows them)");
}

} // namespace shardonnx::rt
