// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See TraceFile.h. A part's first line is an object with the rank's times, the
// others are its events, which are copied as they are: whoever joins them
// never has them all in memory.

#include "TraceFile.h"
#include "../support/Error.h"
#include "../support/File.h"
#include "shardonnx/runtime/Printable.h"
#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

namespace shardonnx::rt {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kRowNames[kTraceRows] = {"steps",    "waiting", "compute",
                                               "update",   "gather",  "reduce",
                                               "replicas", "copy",    "thread"};
constexpr int kFirstThreadRow = static_cast<int>(TraceRow::Threads);
constexpr size_t kTableRows = 12; // units that the table on stderr names

std::string dump(const Json &json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const std::string &unitName(const Manifest &manifest, int64_t unit) {
  static const std::string none = kNoUnitName;
  return unit < 0 || unit >= static_cast<int64_t>(manifest.units.size())
             ? none
             : manifest.units[static_cast<size_t>(unit)].name;
}

// A file that is there whole or not at all.
class Output {
public:
  explicit Output(const std::string &path) : path(path) {
    int fd = ::open(path.c_str(),
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    stream = fd < 0 ? nullptr : ::fdopen(fd, "w");
    if (!stream)
      fail("cannot write the trace '", path, "': ", systemError(),
           "; --trace needs a file in a folder that can be written");
  }
  ~Output() {
    if (!stream)
      return;
    std::fclose(stream);
    ::unlink(path.c_str());
  }
  Output(const Output &) = delete;
  Output &operator=(const Output &) = delete;
  void write(const char *text, size_t bytes) {
    if (std::fwrite(text, 1, bytes, stream) != bytes)
      failed();
  }
  void write(const std::string &text) { write(text.data(), text.size()); }
  void close(const std::string &name) {
    if (std::fflush(stream) != 0 || ::rename(path.c_str(), name.c_str()) != 0)
      failed();
    std::fclose(stream);
    stream = nullptr;
  }

private:
  [[noreturn]] void failed() {
    fail("cannot write the trace '", path, "': ", systemError(),
         "; make room, or give another --trace");
  }
  std::string path;
  std::FILE *stream = nullptr;
};

// Microseconds, which the format wants, without losing any bits.
std::string micros(int64_t nanoseconds) {
  char text[40];
  std::snprintf(text, sizeof(text), "%lld.%03lld",
                static_cast<long long>(nanoseconds / 1000),
                static_cast<long long>(nanoseconds % 1000));
  return text;
}

double millis(int64_t nanoseconds, int64_t steps) {
  return static_cast<double>(nanoseconds) * 1e-6 / static_cast<double>(steps);
}

std::string nameRow(int rank, const char *what, int row, const Json &value) {
  Json event = {{"ph", "M"},
                {"name", what},
                {"pid", rank},
                {"tid", row},
                {"args", value}};
  return dump(event) + "\n";
}

std::string rowsOf(const Trace &trace) {
  std::string text = nameRow(trace.rank, "process_name", 0,
                             {{"name", concat("rank ", trace.rank)}}) +
                     nameRow(trace.rank, "process_sort_index", 0,
                             {{"sort_index", trace.rank}});
  auto add = [&](int row, const std::string &name) {
    text +=
        nameRow(trace.rank, "thread_name", row, {{"name", name}}) +
        nameRow(trace.rank, "thread_sort_index", row, {{"sort_index", row}});
  };
  for (int row = 0; row < kFirstThreadRow; ++row)
    add(row, kRowNames[static_cast<size_t>(row)]);
  for (int thread = 0; thread < trace.threads(); ++thread)
    add(kFirstThreadRow + thread, concat("thread ", thread));
  return text;
}

std::string eventText(const Manifest &manifest, int rank,
                      const TraceEvent &event) {
  auto row = static_cast<size_t>(event.row);
  bool ofThread = event.row == TraceRow::Threads;
  std::string text =
      concat("{\"ph\":\"X\",\"pid\":", rank, ",\"tid\":",
             ofThread ? kFirstThreadRow + event.unit : static_cast<int>(row),
             ",\"ts\":", micros(event.begin),
             ",\"dur\":", micros(event.end - event.begin), ",\"cat\":\"",
             kRowNames[row], "\",\"name\":", dump(Json(event.name)));
  if (event.unit >= 0 && !ofThread)
    text +=
        ",\"args\":{\"unit\":" + dump(Json(unitName(manifest, event.unit))) +
        "}";
  return text + "}\n";
}

Json headerOf(const Trace &trace, const Manifest &manifest) {
  Json units = Json::array();
  for (size_t u = 0; u < trace.times.size(); ++u) {
    const TraceTimes &times = trace.times[u];
    units.push_back({{"unit", unitName(manifest, static_cast<int64_t>(u))},
                     {"gather_ms", millis(times.gather, trace.steps())},
                     {"reduce_ms", millis(times.reduce, trace.steps())},
                     {"exposed_ms", millis(times.exposed, trace.steps())}});
  }
  Json header = {{"rank", trace.rank}};
  if (trace.hasTimes) {
    header["exposed_ms"] = millis(trace.exposed, trace.steps());
    header["units"] = units;
  }
  if (trace.dropped() > 0)
    header["events_left_out"] = trace.dropped();
  if (!trace.missing.empty())
    header["missing"] = trace.missing;
  return header;
}

// The mean over the ranks of a machine, the most exposed units first.
void printTable(std::vector<Json> ranks, const Trace &trace) {
  ranks.erase(
      std::remove_if(ranks.begin(), ranks.end(),
                     [](const Json &rank) { return !rank.contains("units"); }),
      ranks.end());
  if (ranks.empty())
    return;
  struct Line {
    std::string unit;
    double gather, reduce, exposed;
  };
  std::vector<Line> lines;
  double exposed = 0;
  for (const Json &rank : ranks) {
    const Json &units = rank.at("units");
    lines.resize(units.size());
    exposed += rank.at("exposed_ms").get<double>();
    for (size_t u = 0; u < units.size(); ++u) {
      Line &line = lines[u];
      line.unit = units[u].at("unit").get<std::string>();
      line.gather += units[u].at("gather_ms").get<double>();
      line.reduce += units[u].at("reduce_ms").get<double>();
      line.exposed += units[u].at("exposed_ms").get<double>();
    }
  }
  std::stable_sort(
      lines.begin(), lines.end(),
      [](const Line &a, const Line &b) { return a.exposed > b.exposed; });
  auto count = static_cast<double>(ranks.size());
  Line others{"", 0, 0, 0}, all{"total", 0, 0, exposed};
  auto print = [count](const Line &line) {
    std::fprintf(stderr, "%-28s %10.3f %10.3f %10.3f\n",
                 printable(line.unit).c_str(), line.gather / count,
                 line.reduce / count, line.exposed / count);
  };
  std::fprintf(stderr,
               "communication, ms per step (steps %lld-%lld, mean of %zu "
               "ranks)\n%-28s %10s %10s %10s\n",
               static_cast<long long>(trace.first()),
               static_cast<long long>(trace.last()), ranks.size(), "unit",
               "gather", "reduce", "exposed");
  for (size_t i = 0; i < lines.size(); ++i) {
    all.gather += lines[i].gather;
    all.reduce += lines[i].reduce;
    if (i < kTableRows || lines.size() == kTableRows + 1) {
      print(lines[i]);
      continue;
    }
    others.gather += lines[i].gather;
    others.reduce += lines[i].reduce;
    others.exposed += lines[i].exposed;
  }
  if (lines.size() > kTableRows + 1) {
    others.unit = concat("(", lines.size() - kTableRows, " others)");
    print(others);
  }
  print(all);
}

} // namespace

std::string traceFileName(const std::string &file, int worldSize,
                          const std::vector<int> &localRanks) {
  if (localRanks.size() == static_cast<size_t>(worldSize))
    return file;
  std::string ranks = concat(".ranks", localRanks.front());
  if (localRanks.size() > 1)
    ranks += concat("-", localRanks.back());
  size_t name = file.rfind('/') == file.npos ? 0 : file.rfind('/') + 1;
  size_t dot = file.rfind('.');
  if (dot == file.npos || dot <= name)
    dot = file.size();
  return file.substr(0, dot) + ranks + file.substr(dot);
}

TraceFile::TraceFile(const Options &options, const Manifest &manifest, int rank,
                     int worldSize, std::vector<int> ranks, std::string tag)
    : trace(rank, options.traceFirst, options.traceLast, manifest.units.size()),
      manifest(manifest), worldSize(worldSize), localRanks(std::move(ranks)),
      file(traceFileName(options.trace, worldSize, localRanks)),
      tag(std::move(tag)) {
  if (!leads())
    return;
  makeFolderOf(file);
  size_t slash = file.rfind('/');
  std::string folder = slash == file.npos ? "." : file.substr(0, slash + 1);
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    fail("cannot write the trace '", file, "': ", systemError(),
         "; --trace needs a file in a folder that can be written");
  struct stat there;
  if (::stat(file.c_str(), &there) == 0 && !S_ISREG(there.st_mode))
    fail("cannot write the trace '", file,
         "': it is there and is no regular file; give another --trace");
}

void TraceFile::discard() {
  if (partExists)
    ::unlink(partOf(trace.rank).c_str());
}

std::string TraceFile::partOf(int rank) const {
  return concat(file, ".", tag, ".rank", rank, ".part");
}

void TraceFile::writePart() {
  std::string name = partOf(trace.rank);
  Output part(name);
  part.write(dump(headerOf(trace, manifest)) + "\n");
  part.write(rowsOf(trace));
  for (const TraceEvent &event : trace.events())
    part.write(eventText(manifest, trace.rank, event));
  part.close(name);
  partExists = true;
}

void TraceFile::join() {
  partExists = partExists && !leads();
  if (!leads())
    return;
  Output whole(concat(file, ".", tag, ".part"));
  whole.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  std::vector<Json> headers;
  bool first = true;
  for (int rank : localRanks) {
    std::string name = partOf(rank);
    std::ifstream part(name, std::ios::binary);
    std::string line;
    if (!std::getline(part, line))
      fail("cannot read the part '", name, "' of the trace: ", systemError(),
           "; another run may have written the same --trace");
    headers.push_back(Json::parse(line));
    for (; std::getline(part, line); first = false)
      whole.write((first ? "" : ",\n") + line);
    ::unlink(name.c_str());
  }
  Json other = {
      {"program", manifest.name},  {"strategy", spell(manifest.strategy)},
      {"world_size", worldSize},   {"first_step", trace.first()},
      {"last_step", trace.last()}, {"exposed_ms_are", "per step"},
      {"ranks", headers}};
  whole.write("\n],\"otherData\":" + dump(other) + "}\n");
  whole.close(file);
  for (const Json &header : headers)
    if (header.contains("events_left_out"))
      printWarning(concat("the trace leaves out ", header["events_left_out"],
                          " events of rank ", header["rank"],
                          ": give fewer --trace-steps"));
  printTable(headers, trace);
}

} // namespace shardonnx::rt
