// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --trace of programs for GPUs: what becomes of a GPU's records, which are made
// up here, and runs on the emulated GPU, with an emulated CUPTI.

#include "../../runtime/cuda/trace/GpuTrace.h"
#include "runtime/TableReference.h"
#include "runtime/TestFiles.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace shardonnx::rt;
using namespace shardonnx::rt::cuda;
using namespace shardonnx::test;

namespace {

using Json = nlohmann::json;

constexpr const char *kAllGather =
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
constexpr const char *kReduceScatter =
    "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL";

GpuRecord kernel(const char *name, int64_t begin, int64_t end,
                 uint32_t stream = 0) {
  return {name, begin, end, stream, stream == 0, GpuWork::Kernel};
}

std::vector<TraceEvent> rowOf(const Trace &trace, TraceRow row) {
  std::vector<TraceEvent> events;
  for (const TraceEvent &event : trace.events())
    if (event.row == row)
      events.push_back(event);
  return events;
}

TEST(GpuTrace, KernelsOfNcclAreKnownByName) {
  EXPECT_EQ(collectiveOf(kAllGather), CollectiveKind::AllGather);
  EXPECT_EQ(collectiveOf("ncclSymkDevKernel_ReduceScatter_LD"),
            CollectiveKind::ReduceScatter);
  EXPECT_EQ(collectiveOf("ncclDevKernel_AllReduce_Sum_bf16_TREE_LL"),
            CollectiveKind::AllReduce);
  EXPECT_EQ(collectiveOf("cutlass_AllGather"), CollectiveKind::None);
}

// One microbatch and its update, launched as graphs: no stream tells anything.
GpuTraceInput step() {
  GpuTraceInput input;
  input.severalRanks = true;
  input.records = {
      kernel("gemm", 0, 100),
      kernel("shx_k_cast_slice_bf16", 0, 10),
      kernel(kAllGather, 10, 150), // unit 0: 50 exposed
      kernel("gemm", 150, 400),
      kernel(kAllGather, 160, 200),     // unit 1
      kernel(kReduceScatter, 380, 450), // unit 1: 50 exposed, 30 with unit 0
      kernel(kAllGather, 420, 430),     // unit 0 again: 10 exposed
      kernel("shx_k_sum_slices_f32", 450, 460),
      kernel(kAllGather, 500, 505), // the loss
      kernel("adamw", 510, 600)};
  // The order in which records come is CUPTI's.
  std::reverse(input.records.begin(), input.records.end());
  input.issued = {{CollectiveKind::AllGather, TraceRow::Gather, 0},
                  {CollectiveKind::AllGather, TraceRow::Gather, 1},
                  {CollectiveKind::ReduceScatter, TraceRow::Reduce, 1},
                  {CollectiveKind::AllGather, TraceRow::Gather, 0},
                  {CollectiveKind::AllGather, TraceRow::Reduce, -1}};
  return input;
}

TEST(GpuTrace, CollectivesFindTheirUnits) {
  Trace trace(0, 1, 1, 2);
  addGpuWork(trace, step());
  EXPECT_EQ(trace.missing, "");
  std::vector<TraceEvent> gathers = rowOf(trace, TraceRow::Gather);
  ASSERT_EQ(gathers.size(), 4u); // the cast too
  EXPECT_EQ(gathers[0].unit, -1);
  EXPECT_EQ(gathers[1].unit, 0);
  EXPECT_EQ(gathers[2].unit, 1);
  EXPECT_EQ(gathers[3].unit, 0);
  std::vector<TraceEvent> reductions = rowOf(trace, TraceRow::Reduce);
  ASSERT_EQ(reductions.size(), 3u);
  EXPECT_EQ(reductions[0].unit, 1);
  EXPECT_STREQ(reductions[2].name, kAllGather); // the loss's
  EXPECT_EQ(rowOf(trace, TraceRow::Compute).size(), 3u);
}

TEST(GpuTrace, ExposedIsWhatNoKernelCovers) {
  Trace trace(0, 1, 1, 2);
  addGpuWork(trace, step());
  EXPECT_EQ(trace.times[0].gather, 140 + 10);
  EXPECT_EQ(trace.times[0].exposed, 50 + 10);
  EXPECT_EQ(trace.times[1].gather, 40);
  EXPECT_EQ(trace.times[1].reduce, 70);
  EXPECT_EQ(trace.times[1].exposed, 50);
  EXPECT_EQ(trace.times[2].reduce, 5);
  EXPECT_EQ(trace.times[2].exposed, 5);
  // Two collectives at once are exposed once.
  EXPECT_EQ(trace.exposed, 50 + 50 + 5);
}

TEST(GpuTrace, StreamsTellWhatIsNotInAGraph) {
  Trace trace(0, 1, 1, 1);
  GpuTraceInput input;
  input.severalRanks = true;
  input.rowOfStream = {{7, TraceRow::Compute}, {8, TraceRow::Reduce}};
  input.records = {kernel("shx_k_cast_slice_f32", 0, 10, 7),
                   kernel("any", 20, 30, 8)};
  input.records.push_back({"", 0, 5, 9, false, GpuWork::Upload});
  input.records.push_back({"", 40, 50, 7, false, GpuWork::Fill});
  addGpuWork(trace, input);
  EXPECT_EQ(rowOf(trace, TraceRow::Compute).size(), 2u);
  EXPECT_EQ(rowOf(trace, TraceRow::Reduce).size(), 1u);
  ASSERT_EQ(rowOf(trace, TraceRow::Copy).size(), 1u);
  EXPECT_STREQ(rowOf(trace, TraceRow::Copy)[0].name, "copy to the GPU");
  EXPECT_EQ(trace.exposed, 0);
}

// Beside the next step's kernels, whose row shows what it would without them.
TEST(GpuTrace, OptimizersHaveARowOfTheirOwn) {
  Trace trace(0, 1, 1, 1);
  GpuTraceInput input;
  input.severalRanks = true;
  input.records = {kernel("shx_optimizer_kernel_bf16", 0, 100),
                   kernel(kAllGather, 80, 120), // 20 exposed
                   kernel("gemm", 50, 60)};
  input.issued = {{CollectiveKind::AllGather, TraceRow::Gather, 0}};
  addGpuWork(trace, input);
  EXPECT_EQ(rowOf(trace, TraceRow::Update).size(), 1u);
  ASSERT_EQ(rowOf(trace, TraceRow::Compute).size(), 1u);
  EXPECT_EQ(rowOf(trace, TraceRow::Compute)[0].begin, 50);
  EXPECT_EQ(trace.exposed, 20);
}

TEST(GpuTrace, CollectivesThatDoNotAddUpStayWithoutAUnit) {
  Trace trace(0, 1, 1, 2);
  GpuTraceInput input = step();
  input.issued.pop_back();
  addGpuWork(trace, input);
  EXPECT_NE(trace.missing.find("ran 4 kernels of AllGather for 3"),
            std::string::npos)
      << trace.missing;
  for (const TraceEvent &event : rowOf(trace, TraceRow::Gather))
    EXPECT_EQ(event.unit, -1);
  EXPECT_EQ(trace.times[0].gather, 0);
  EXPECT_EQ(trace.times[2].gather, 140 + 40 + 10 + 5);
  EXPECT_EQ(trace.times[1].reduce, 70); // of another kind
}

TEST(GpuTrace, SpansOfARowDoNotCross) {
  Trace trace(0, 1, 1, 0);
  GpuTraceInput input;
  input.records = {kernel("a", 0, 10), kernel("b", 5, 20), kernel("c", 6, 9)};
  addGpuWork(trace, input);
  std::vector<TraceEvent> row = rowOf(trace, TraceRow::Compute);
  ASSERT_EQ(row.size(), 2u);
  EXPECT_EQ(row[1].begin, 10);
  EXPECT_EQ(row[1].end, 20);
}

Finished traceTable(const Folder &folder,
                    std::vector<std::pair<std::string, std::string>> more,
                    const std::vector<std::string> &options = {}) {
  writeTable(drawTable(), folder.path);
  std::vector<uint16_t> tokens(2001, 7);
  folder.write("t.bin", bytesOf(tokens));
  std::vector<std::pair<std::string, std::string>> environment = {
      {"LD_LIBRARY_PATH", SHX_CUDA_EMULATOR},
      {"CUDA_FORCE_PTX_JIT", "1"},
      {"SHARDONNX_EMULATOR_DEVICES", "2"},
      {"SHARDONNX_EMULATOR_THREADS", "1"}};
  environment.insert(environment.end(), more.begin(), more.end());
  std::vector<std::string> words = {SHX_TEST_PROGRAMS "/table_cuda_f32",
                                    "--data",
                                    folder / "t.bin",
                                    "--model",
                                    folder / "table.onnx",
                                    "--steps",
                                    "4",
                                    "--nproc",
                                    "2",
                                    "--trace",
                                    folder / "t.json"};
  words.insert(words.end(), options.begin(), options.end());
  return Process(words, folder, environment).wait();
}

#ifdef SHX_TEST_CUPTI
// Every collective finds its unit, kernels lie on the compute row.
TEST(CudaTrace, TheGpuHasItsRows) {
  Folder folder;
  Finished f = traceTable(folder, {});
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(f.err.find("warning"), f.err.npos) << f.err;
  EXPECT_NE(f.err.find("ms per step"), f.err.npos) << f.err;
  Json trace = Json::parse(readFile(folder / "t.json"));
  size_t collectives = 0, withUnit = 0, kernels = 0;
  for (const Json &event : trace["traceEvents"]) {
    if (event["ph"] != "X")
      continue;
    std::string name = event["name"];
    if (name == "ncclAllGather" || name == "ncclReduceScatter") {
      ++collectives;
      withUnit += event.contains("args");
      EXPECT_NE(event["cat"], "compute");
    }
    kernels += event["cat"] == "compute";
  }
  EXPECT_GT(withUnit, 0u);
  EXPECT_GE(collectives, withUnit);
  EXPECT_GT(kernels, 0u);
  for (const Json &rank : trace["otherData"]["ranks"]) {
    EXPECT_FALSE(rank.contains("missing")) << rank;
    EXPECT_GT(rank["units"][0]["gather_ms"].get<double>(), 0);
  }
}

// Between two steps nothing is recorded, and steps have what they have without:
// forwards and backwards as often, and as many updates.
TEST(CudaTrace, EvaluationsAreNoPartOfAStep) {
  auto countsOf = [](bool evaluates) {
    Folder folder;
    std::vector<std::string> options;
    if (evaluates)
      options = {"--eval-data", folder / "t.bin", "--eval-every", "1"};
    Finished f = traceTable(folder, {}, options);
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_EQ(f.err.find("warning"), f.err.npos) << f.err;
    std::map<std::string, int> counts;
    Json trace = Json::parse(readFile(folder / "t.json"));
    for (const Json &event : trace["traceEvents"])
      if (event["ph"] == "X" &&
          (event["cat"] == "compute" || event["cat"] == "update" ||
           event["name"] == "evaluation"))
        ++counts[event["name"]];
    for (const Json &rank : trace["otherData"]["ranks"])
      EXPECT_FALSE(rank.contains("missing")) << rank;
    return counts;
  };
  std::map<std::string, int> without = countsOf(false);
  std::map<std::string, int> with = countsOf(true);
  EXPECT_EQ(with["evaluation"], 2 * 2); // two ranks, behind steps 2 and 3
  with.erase("evaluation");
  EXPECT_EQ(with, without);
}
#endif

TEST(CudaTrace, WithoutCuptiTheRunGoesOnWithAWarning) {
  Folder folder;
  Finished f = traceTable(folder, {{"SHARDONNX_EMULATOR_CUPTI", "0"}});
#ifdef SHX_TEST_CUPTI
  ASSERT_EQ(f.code, 0) << f.err;
  size_t warning = f.err.find("warning: --trace has no rows of the GPU: ");
  ASSERT_NE(warning, f.err.npos) << f.err;
  EXPECT_EQ(f.err.find("--trace has no rows", warning + 20), f.err.npos)
      << f.err;
  EXPECT_EQ(f.err.find("ms per step"), f.err.npos) << f.err; // of what
  Json trace = Json::parse(readFile(folder / "t.json"));
  size_t updates = 0; // as the host issues them
  for (const Json &event : trace["traceEvents"])
    updates += event["name"] == "update";
  EXPECT_EQ(updates, 2u * 3u);
  for (const Json &rank : trace["otherData"]["ranks"])
    EXPECT_NE(rank["missing"].get<std::string>().find("the GPU's rows"),
              std::string::npos);
#else
  EXPECT_EQ(f.code, 1);
  EXPECT_NE(f.err.find("without CUPTI's header"), f.err.npos) << f.err;
#endif
}

} // namespace
