// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Profile.h. Time comes from the trace, work from the manifest; the name of
// a kernel or product joins the two.

#include "Profile.h"
#include "../support/Error.h"
#include "shardonnx/runtime/Printable.h"
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <set>

namespace shardonnx::rt {
namespace {

/// What the step does under one name.
struct Work {
  double flops = 0, bytes = 0;
  std::set<std::string> places, phases;
};

struct Row {
  std::string name;
  double calls = 0, ms = 0;   // a step
  const Work *work = nullptr; // null: not known
};

// transformer.h.3.mlp -> transformer.h.*.mlp
std::string alike(const std::string &path) {
  std::string text;
  for (size_t at = 0; at <= path.size();) {
    size_t dot = std::min(path.find('.', at), path.size());
    std::string part = path.substr(at, dot - at);
    bool number = !part.empty() &&
                  part.find_first_not_of("0123456789") == std::string::npos;
    text += (text.empty() ? "" : ".") + (number ? "*" : part);
    at = dot + 1;
  }
  return text;
}

const char *wordOf(Manifest::Phase phase) {
  switch (phase) {
  case Manifest::Phase::Forward:
    return "forward";
  case Manifest::Phase::Recompute:
    return "recompute";
  case Manifest::Phase::Backward:
    return "backward";
  }
  return "";
}

void addRun(const Manifest &m, const Manifest::LaunchRun &run, double times,
            std::map<std::string, Work> &works) {
  const Manifest::Launch &launch = m.launches[run.launch];
  // All of a program's attention goes by one name.
  Work &work = works[launch.kind == "attention"
                         ? launch.name.substr(0, launch.name.find(' '))
                         : launch.name];
  double count = times * static_cast<double>(run.count);
  work.flops += count * launch.flops;
  work.bytes += count * (launch.readBytes + launch.writtenBytes);
  work.phases.insert(wordOf(run.phase));
  if (run.unit >= 0)
    work.places.insert(alike(m.units[static_cast<size_t>(run.unit)].name));
}

// Of one step, by name.
std::map<std::string, Work> worksOf(const Manifest &m, int64_t microbatches,
                                    int64_t owned) {
  std::map<std::string, Work> works;
  for (const Manifest::Function &function : m.functions) {
    double times = 0;
    if (function.name == "first_microbatch" || function.name == "update")
      times = 1;
    if (function.name == "next_microbatch")
      times = static_cast<double>(microbatches - 1);
    if (times > 0)
      for (const Manifest::LaunchRun &run : function.launches)
        addRun(m, run, times, works);
  }
  // Of owned slices; the norm's squares may have been taken before.
  works["optimizer"].bytes =
      12.0 * static_cast<double>(owned) +
      2.0 * static_cast<double>(m.optimizerStates() * m.stateBytes(owned));
  return works;
}

std::string join(const std::set<std::string> &words, const char *between,
                 size_t most) {
  std::string text;
  size_t count = 0;
  for (const std::string &word : words) {
    if (++count > most)
      return text + between + "…";
    text += (text.empty() ? "" : between) + word;
  }
  return text;
}

std::string number(double value, const char *format = "%.1f") {
  char text[40];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

struct Columns {
  std::string name, calls, ms, share, flops, bytes, peak, place;
};

std::string line(const Columns &c) {
  char text[160];
  std::snprintf(text, sizeof(text), "%-34s %8s %10s %7s %9s %8s %7s  ",
                printable(c.name).c_str(), c.calls.c_str(), c.ms.c_str(),
                c.share.c_str(), c.flops.c_str(), c.bytes.c_str(),
                c.peak.c_str());
  std::string whole = text + printable(c.place);
  whole.erase(whole.find_last_not_of(' ') + 1);
  return whole + "\n";
}

std::string rowText(const Row &row, double stepMs,
                    const std::optional<Peaks> &peaks) {
  Columns c{row.name,
            number(row.calls),
            number(row.ms, "%.3f"),
            number(100 * row.ms / stepMs) + "%",
            "",
            "",
            "",
            ""};
  if (!row.work || row.ms <= 0)
    return line(c);
  double flops = row.work->flops / row.ms * 1e-6;
  double bytes = row.work->bytes / row.ms * 1e-6;
  if (row.work->flops > 0)
    c.flops = number(flops);
  if (row.work->bytes > 0)
    c.bytes = number(bytes);
  if (peaks && row.work->flops > 0)
    c.peak = number(100 * flops / peaks->gflops, "%.0f") + "%";
  else if (peaks && row.work->bytes > 0)
    c.peak = number(100 * bytes / peaks->gigabytes, "%.0f") + "%";
  std::string phases = join(row.work->phases, "+", 3);
  c.place =
      phases + (phases.empty() ? "" : " ") + join(row.work->places, ", ", 3);
  return line(c);
}

/// The rows of one kind of span, the longest first.
std::vector<Row> rowsOf(const std::map<std::string, TraceTally> &tallies,
                        double steps,
                        const std::map<std::string, Work> &works) {
  std::vector<Row> rows;
  for (const auto &[name, tally] : tallies) {
    auto work = works.find(name);
    rows.push_back({name, static_cast<double>(tally.calls) / steps,
                    static_cast<double>(tally.nanoseconds) * 1e-6 / steps,
                    work == works.end() ? nullptr : &work->second});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row &a, const Row &b) { return a.ms > b.ms; });
  return rows;
}

double sumOf(const std::vector<Row> &rows) {
  double sum = 0;
  for (const Row &row : rows)
    sum += row.ms;
  return sum;
}

std::string describe(const Trace &trace, double stepMs,
                     const std::optional<Peaks> &peaks) {
  std::string text =
      concat("profile of rank ", trace.rank, ", steps ", trace.first(), "-",
             trace.last(), ": ", number(stepMs, "%.2f"), " ms a step");
  if (peaks)
    text += concat("; measured at the start: products ",
                   number(peaks->gflops, "%.0f"), " GFLOP/s, memory ",
                   number(peaks->gigabytes, "%.1f"), " GB/s, ", peaks->threads,
                   peaks->threads == 1 ? " thread" : " threads");
  return text + "\n";
}

// The whole steps.
TraceTally stepsOf(const Trace &trace) {
  TraceTally run;
  for (const auto &[name, tally] : trace.tallies(TraceRow::Steps))
    if (name.rfind("step ", 0) == 0) {
      run.calls += tally.calls;
      run.nanoseconds += tally.nanoseconds;
    }
  return run;
}

// A GPU runs behind the calls: from its first kernel to its last, and again
// behind an evaluation.
int64_t deviceNanoseconds(const Trace &trace) {
  std::vector<TraceEvent> events = trace.events();
  std::sort(events.begin(), events.end(),
            [](const auto &a, const auto &b) { return a.begin < b.begin; });
  int64_t first = INT64_MAX, last = INT64_MIN, sum = 0;
  auto endRun = [&] {
    sum += std::max<int64_t>(last - std::min(first, last), 0);
    first = INT64_MAX;
    last = INT64_MIN;
  };
  for (const TraceEvent &event : events) {
    if (event.row == TraceRow::Compute || event.row == TraceRow::Update) {
      first = std::min(first, event.begin);
      last = std::max(last, event.end);
    } else if (event.row == TraceRow::Steps &&
               event.name == std::string(kEvaluationSpan)) {
      endRun();
    }
  }
  endRun();
  return sum;
}

// Of the pool's threads, while kernels ran that say what each thread did.
double idleOf(const Trace &trace,
              const std::map<std::string, TraceTally> &compute,
              const std::map<std::string, TraceTally> &threads, double steps) {
  double idle = 0;
  for (const auto &[name, busy] : threads)
    if (auto whole = compute.find(name); whole != compute.end())
      idle += static_cast<double>(whole->second.nanoseconds) -
              static_cast<double>(busy.nanoseconds) / trace.threads();
  return std::max(idle, 0.0) * 1e-6 / steps;
}

} // namespace

std::string profileText(const Trace &trace, const Manifest &manifest,
                        int64_t microbatches, int64_t owned,
                        const std::optional<Peaks> &peaks) {
  TraceTally run = stepsOf(trace);
  if (run.calls == 0)
    return "";
  auto steps = static_cast<double>(run.calls);
  if (manifest.cuda())
    run.nanoseconds = deviceNanoseconds(trace);
  double stepMs = static_cast<double>(run.nanoseconds) * 1e-6 / steps;
  std::map<std::string, Work> works = worksOf(manifest, microbatches, owned);
  auto compute = trace.tallies(TraceRow::Compute);
  compute.merge(trace.tallies(TraceRow::Update));
  auto threads = trace.tallies(TraceRow::Threads);
  std::vector<Row> kernels = rowsOf(compute, steps, works);
  std::vector<Row> waits = rowsOf(trace.tallies(TraceRow::Waiting), steps, {});
  std::string text = describe(trace, stepMs, peaks);
  text += line({"kernel or product", "calls", "ms", "share", "GFLOP/s", "GB/s",
                "of peak", "what"});
  for (const Row &row : kernels)
    text += rowText(row, stepMs, peaks);
  for (Row &row : waits) {
    row.name = "waiting: " + row.name;
    text += rowText(row, stepMs, peaks);
  }
  double moved = 0;
  for (auto [kind, name] : {std::pair{TraceRow::Gather, "gather"},
                            {TraceRow::Reduce, "reduce"},
                            {TraceRow::Replicas, "replicas"}}) {
    TraceTally all;
    for (const auto &[unit, tally] : trace.tallies(kind)) {
      all.calls += tally.calls;
      all.nanoseconds += tally.nanoseconds;
    }
    if (all.calls == 0)
      continue;
    std::vector<Row> row =
        rowsOf({{concat("copies and sums: ", name), all}}, steps, {});
    moved += row.front().ms;
    text += rowText(row.front(), stepMs, peaks);
  }
  double rest = stepMs - sumOf(kernels) - sumOf(waits) - moved;
  if (rest > 0)
    text += rowText({"between kernels", 0, rest}, stepMs, peaks);
  if (trace.threads() > 1 && !threads.empty())
    text += concat(
        "threads idle within kernels (uneven parts, start and end of "
        "parallel loops): ",
        number(idleOf(trace, compute, threads, steps), "%.3f"), " ms a step\n");
  return text;
}

} // namespace shardonnx::rt
