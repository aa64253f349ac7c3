// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --trace: what is recorded, the file that it becomes, and whole runs with it.

#include "../../runtime/support/Error.h"
#include "../../runtime/training/TraceFile.h"
#include "runtime/OneError.h"
#include "runtime/TableReference.h"
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace shardonnx;
using namespace shardonnx::rt;
using namespace shardonnx::test;

namespace {

using Json = nlohmann::json;

Manifest twoUnits() {
  Manifest manifest;
  manifest.units.resize(2);
  manifest.units[0].name = "a";
  manifest.units[1].name = "b \"quoted\"";
  return manifest;
}

TEST(Trace, TimesAreSummedByUnitAndRow) {
  Trace trace(0, 1, 2, 2);
  trace.measure({"x", 0, 5000, 1, TraceRow::Gather});
  trace.measure({"x", 0, 7000, 1, TraceRow::Reduce});
  trace.measure({"x", 0, 2000, 1, TraceRow::Waiting});
  trace.measure({"x", 0, 999, 1, TraceRow::Waiting}); // there already
  trace.measure({"norm", 0, 3000, -1, TraceRow::Waiting});
  trace.measure({"gemm", 0, 9000, -1, TraceRow::Compute});
  EXPECT_EQ(trace.times[1].gather, 5000);
  EXPECT_EQ(trace.times[1].reduce, 7000);
  EXPECT_EQ(trace.times[1].exposed, 2000);
  EXPECT_EQ(trace.times[0].exposed, 0);
  EXPECT_EQ(trace.times[2].exposed, 3000);
  EXPECT_EQ(trace.exposed, 5000);
  EXPECT_EQ(trace.events().size(), 5u);
}

TEST(Trace, SpansCountOnlyWhileItIsActive) {
  Trace trace(0, 1, 1, 0);
  {
    TraceSpan none(nullptr, TraceRow::Steps, "no trace");
  }
  {
    TraceSpan early(&trace, TraceRow::Steps, "early");
  }
  trace.setActive(true);
  {
    TraceSpan span(&trace, TraceRow::Steps, trace.intern("step 1"));
  }
  trace.setActive(false);
  {
    TraceSpan late(&trace, TraceRow::Steps, "late");
  }
  ASSERT_EQ(trace.events().size(), 1u);
  EXPECT_STREQ(trace.events()[0].name, "step 1");
  EXPECT_LE(trace.events()[0].begin, trace.events()[0].end);
}

TEST(Trace, MemoryIsBounded) {
  Trace trace(0, 1, 1, 0);
  for (size_t i = 0; i < Trace::kMaxEvents + 7; ++i)
    trace.measure({"x", 0, 1, -1, TraceRow::Gather});
  EXPECT_EQ(trace.events().size(), Trace::kMaxEvents);
  EXPECT_EQ(trace.dropped(), 7u);
  EXPECT_EQ(trace.times[0].gather, int64_t(Trace::kMaxEvents) + 7);
}

TEST(TraceFile, MachinesHaveFilesOfTheirOwn) {
  EXPECT_EQ(traceFileName("d.x/t.json", 2, {0, 1}), "d.x/t.json");
  EXPECT_EQ(traceFileName("d.x/t.json", 4, {2, 3}), "d.x/t.ranks2-3.json");
  EXPECT_EQ(traceFileName("d.x/t", 2, {1}), "d.x/t.ranks1");
}

TEST(TraceFile, JoinsTheRanksOfAMachine) {
  Folder folder;
  Manifest manifest = twoUnits();
  Options options;
  options.trace = folder / "t.json";
  options.traceFirst = 3, options.traceLast = 4;
  TraceFile one(options, manifest, 1, 2, {0, 1}, "a");
  one.trace.measure({"k\n", 1234567, 1240000, -1, TraceRow::Compute});
  one.trace.missing = "something";
  one.writePart();
  TraceFile zero(options, manifest, 0, 2, {0, 1}, "a");
  zero.trace.measure({"b", 1000, 4000001, 1, TraceRow::Gather});
  zero.writePart();
  one.join();
  EXPECT_FALSE(std::filesystem::exists(options.trace));
  zero.join();
  Json trace = Json::parse(readFile(options.trace));
  std::vector<Json> events;
  for (const Json &event : trace["traceEvents"])
    if (event["ph"] == "X")
      events.push_back(event);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0]["pid"], 0);
  EXPECT_EQ(events[0]["ts"], 1.0);
  EXPECT_EQ(events[0]["dur"], 3999.001);
  EXPECT_EQ(events[0]["args"]["unit"], "b \"quoted\"");
  EXPECT_EQ(events[1]["name"], "k\n");
  EXPECT_FALSE(events[1].contains("args"));
  Json ranks = trace["otherData"]["ranks"];
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_NEAR(ranks[0]["units"][1]["gather_ms"], 3.999001 / 2,
              1e-9); // per step
  EXPECT_EQ(ranks[1]["missing"], "something");
  // Nothing else is left in the folder.
  auto files = std::filesystem::directory_iterator(folder.path);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST(TraceFile, APlaceThatCannotBeWrittenIsTold) {
  Manifest manifest = twoUnits();
  for (const char *path : {"/dev/null/t.json", "/dev/null", "/tmp"}) {
    Options options;
    options.trace = path;
    EXPECT_THROW(TraceFile(options, manifest, 0, 1, {0}, "a"), Error) << path;
    TraceFile other(options, manifest, 1, 2, {0, 1},
                    "a"); // the first rank speaks
  }
}

// ---- Whole runs

class TracedRuns : public testing::Test {
protected:
  TracedRuns() {
    writeTable(drawTable(), folder.path);
    std::vector<uint16_t> tokens(2001);
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<uint16_t>(i * 7919 % 300);
    folder.write("t.bin", bytesOf(tokens));
  }
  Finished run(const std::string &program, std::vector<std::string> more) {
    std::vector<std::string> words = {SHX_TEST_PROGRAMS "/" + program, "--data",
                                      folder / "t.bin", "--model",
                                      folder / "table.onnx"};
    if (std::find(more.begin(), more.end(), "--steps") == more.end())
      words.insert(words.end(), {"--steps", "6"});
    words.insert(words.end(), more.begin(), more.end());
    return Process(words, folder).wait();
  }
  Folder folder;
};

struct Span {
  std::string name, unit;
  double begin, end;
};
using Rows = std::map<std::pair<int, std::string>, std::vector<Span>>;

// By rank and row, in the order of their begins, the longest first.
Rows rowsOf(const Json &trace) {
  std::map<std::pair<int, int>, std::string> names;
  Rows rows;
  for (const Json &event : trace["traceEvents"])
    if (event["name"] == "thread_name")
      names[{event["pid"], event["tid"]}] = event["args"]["name"];
  for (const Json &event : trace["traceEvents"]) {
    if (event["ph"] != "X")
      continue;
    double begin = event["ts"];
    rows[{event["pid"], names.at({event["pid"], event["tid"]})}].push_back(
        {event["name"],
         event.contains("args") ? event["args"]["unit"].get<std::string>() : "",
         begin, begin + event["dur"].get<double>()});
  }
  for (auto &row : rows)
    std::sort(row.second.begin(), row.second.end(),
              [](const Span &a, const Span &b) {
                return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
              });
  return rows;
}

// Spans of a row lie in each other or apart.
void expectNested(const std::vector<Span> &row) {
  constexpr double kRounding = 1e-2; // of a sum of doubles, µs
  std::vector<Span> open;
  for (const Span &span : row) {
    while (!open.empty() && open.back().end <= span.begin + kRounding)
      open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(span.end, open.back().end + kRounding)
          << span.name << " in " << open.back().name;
    }
    open.push_back(span);
  }
}

size_t count(const std::vector<Span> &row, const std::string &name) {
  return static_cast<size_t>(
      std::count_if(row.begin(), row.end(),
                    [&](const Span &span) { return span.name == name; }));
}

TEST_F(TracedRuns, TwoRanksHaveTheirRows) {
  double before = static_cast<double>(monotonicNanoseconds()) * 1e-3;
  Finished f = run("table_bf16", {"--nproc", "2", "--accumulate", "2",
                                  "--trace", folder / "t.json"});
  double after = static_cast<double>(monotonicNanoseconds()) * 1e-3;
  ASSERT_EQ(f.code, 0) << f.err;
  Json trace = Json::parse(readFile(folder / "t.json"));
  Rows rows = rowsOf(trace);
  for (int rank : {0, 1}) {
    const std::vector<Span> &steps = rows[{rank, "steps"}];
    EXPECT_EQ(count(steps, "microbatch"), 6u); // of steps 2, 3 and 4
    EXPECT_EQ(count(steps, "update"), 3u);
    for (const char *step : {"step 2", "step 3", "step 4"})
      EXPECT_EQ(count(steps, step), 1u) << step;
    EXPECT_EQ(count(steps, "step 1") + count(steps, "step 5"), 0u);
    EXPECT_EQ(count(rows[{rank, "compute"}], "grad_norm"), 3u);
    EXPECT_GE(count(rows[{rank, "compute"}], "optimizer"), 9u);
    // Each unit is reduced once a microbatch. What the update has written is
    // what products read: nothing is copied for a gather.
    EXPECT_EQ(count(rows[{rank, "reduce"}], "a"), 6u);
    EXPECT_TRUE((rows[{rank, "gather"}].empty()));
    for (const char *row :
         {"steps", "compute", "gather", "reduce", "waiting"}) {
      expectNested(rows[{rank, row}]);
      for (const Span &span : rows[{rank, row}]) {
        EXPECT_GE(span.begin, before);
        EXPECT_LE(span.end, after);
      }
    }
  }
  // What is waited for is what the sums say.
  for (int rank : {0, 1}) {
    std::map<std::string, double> waited;
    for (const Span &span : rows[{rank, "waiting"}])
      waited[span.unit] += (span.end - span.begin) * 1e-3 / 3;
    double total = 0;
    const Json &other = trace["otherData"]["ranks"][static_cast<size_t>(rank)];
    for (const Json &unit : other["units"]) {
      std::string name = unit["unit"] == "(norm and loss)"
                             ? ""
                             : unit["unit"].get<std::string>();
      EXPECT_NEAR(unit["exposed_ms"], waited[name], 1e-4) << name;
      total += unit["exposed_ms"].get<double>();
    }
    EXPECT_NEAR(other["exposed_ms"], total, 1e-9);
  }
  EXPECT_NE(f.err.find("communication, ms per step (steps 2-4"), f.err.npos)
      << f.err;
  EXPECT_NE(f.err.find("\ntotal "), f.err.npos) << f.err;
}

TEST_F(TracedRuns, TheWindowIsAnOption) {
  Finished f =
      run("table_f32", {"--trace", folder / "t.json", "--trace-steps", "5-6"});
  ASSERT_EQ(f.code, 0) << f.err;
  Rows rows = rowsOf(Json::parse(readFile(folder / "t.json")));
  EXPECT_EQ(count(rows[{0, "steps"}], "step 5"), 1u);
  EXPECT_EQ(count(rows[{0, "steps"}], "step 6"), 1u);
  EXPECT_EQ(count(rows[{0, "steps"}], "step 4"), 0u);
  // The default is as much of 2-4 as there is.
  f = run("table_f32", {"--trace", folder / "t.json", "--steps", "1"});
  ASSERT_EQ(f.code, 0) << f.err;
  rows = rowsOf(Json::parse(readFile(folder / "t.json")));
  EXPECT_EQ(count(rows[{0, "steps"}], "step 1"), 1u);
}

TEST_F(TracedRuns, MistakesAreTold) {
  struct Case {
    std::vector<std::string> options;
    int code;
    const char *part;
  };
  for (const Case &c :
       {Case{{"--trace-steps", "2-3"}, 2, "needs --trace"},
        Case{{"--trace", "t", "--trace-steps", "4-2"}, 2, "FIRST-LAST"},
        Case{{"--trace", "t", "--trace-steps", "0-2"}, 2, "FIRST-LAST"},
        Case{{"--trace", "t", "--trace-steps", "2-7"}, 2, "has 6 steps"},
        Case{{"--trace", "/dev/null/t", "--nproc", "2"}, 1, "cannot write"}}) {
    Finished f = run("table_f32", c.options);
    EXPECT_EQ(f.code, c.code);
    expectOneError(f, c.part);
  }
}

} // namespace
