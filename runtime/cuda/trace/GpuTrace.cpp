// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See GpuTrace.h.

#include "GpuTrace.h"
#include "../../support/Error.h"
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace shardonnx::rt::cuda {
namespace {

constexpr std::pair<CollectiveKind, const char *> kKinds[] = {
    {CollectiveKind::AllGather, "AllGather"},
    {CollectiveKind::ReduceScatter, "ReduceScatter"},
    {CollectiveKind::SendReceive, "SendRecv"},
    {CollectiveKind::AllReduce, "AllReduce"}};

// The kernels around collectives, which lie on their queues.
constexpr const char *kGatherKernels[] = {
    "shx_k_cast_slice", "shx_k_encode_slice", "shx_k_decode_images"};
// Beside the next step's kernels, or by themselves.
constexpr const char *kOptimizerKernel = "shx_optimizer_kernel";
constexpr const char *kReduceKernel = "shx_k_sum_slices";

bool has(const std::string &text, const char *part) {
  return text.find(part) != text.npos;
}

using Intervals = std::vector<std::pair<int64_t, int64_t>>;

// Apart from each other and in order.
Intervals unite(Intervals list) {
  std::sort(list.begin(), list.end());
  Intervals united;
  for (auto [begin, end] : list)
    if (!united.empty() && begin <= united.back().second)
      united.back().second = std::max(united.back().second, end);
    else
      united.emplace_back(begin, end);
  return united;
}

// How much of [begin, end) no interval covers.
int64_t uncovered(int64_t begin, int64_t end, const Intervals &united) {
  auto at = std::upper_bound(
      united.begin(), united.end(), begin,
      [](int64_t t, const auto &interval) { return t < interval.second; });
  int64_t left = end - begin;
  for (; at != united.end() && at->first < end; ++at)
    left -= std::min(end, at->second) - std::max(begin, at->first);
  return left;
}

struct Work {
  GpuRecord record;
  CollectiveKind kind;
  TraceRow row;
  int32_t unit = -1;
};

TraceRow rowOf(const GpuRecord &record, CollectiveKind kind,
               const GpuTraceInput &input) {
  if (has(record.name, kOptimizerKernel))
    return TraceRow::Update;
  auto known = input.rowOfStream.find(record.stream);
  if (!record.graph && known != input.rowOfStream.end())
    return known->second;
  if (kind != CollectiveKind::None)
    return kind == CollectiveKind::AllGather ? TraceRow::Gather
                                             : TraceRow::Reduce;
  if (record.work == GpuWork::Upload || record.work == GpuWork::Download)
    return TraceRow::Copy;
  if (input.severalRanks && record.work == GpuWork::Kernel) {
    if (std::any_of(
            std::begin(kGatherKernels), std::end(kGatherKernels),
            [&](const char *kernel) { return has(record.name, kernel); }))
      return TraceRow::Gather;
    if (has(record.name, kReduceKernel))
      return TraceRow::Reduce;
  }
  return TraceRow::Compute;
}

const char *nameOf(const GpuRecord &record) {
  switch (record.work) {
  case GpuWork::Upload:
    return "copy to the GPU";
  case GpuWork::Download:
    return "copy to the host";
  case GpuWork::Move:
    return "copy";
  case GpuWork::Fill:
    return "fill";
  case GpuWork::Kernel:
    break;
  }
  return record.name;
}

// Gives the collectives of one kind their rows and units. `list` is in order.
std::string assign(std::vector<Work> &list, CollectiveKind kind,
                   const char *name,
                   const std::vector<IssuedCollective> &issued) {
  std::vector<Work *> ran;
  for (Work &work : list)
    if (work.kind == kind)
      ran.push_back(&work);
  std::vector<const IssuedCollective *> expected;
  for (const IssuedCollective &one : issued)
    if (one.kind == kind)
      expected.push_back(&one);
  if (ran.size() != expected.size())
    return concat("the GPU ran ", ran.size(), " kernels of ", name, " for ",
                  expected.size(), " that were issued: these have no unit");
  for (size_t i = 0; i < ran.size(); ++i) {
    ran[i]->row = expected[i]->row;
    ran[i]->unit = expected[i]->unit;
  }
  return "";
}

void addTimes(Trace &trace, const std::vector<Work> &list) {
  Intervals computing, communicating;
  for (const Work &work : list) {
    auto interval = std::make_pair(work.record.begin, work.record.end);
    if (work.kind != CollectiveKind::None)
      communicating.push_back(interval);
    else if ((work.row == TraceRow::Compute || work.row == TraceRow::Update) &&
             work.record.work == GpuWork::Kernel)
      computing.push_back(interval);
  }
  computing = unite(std::move(computing));
  for (const Work &work : list) {
    if (work.kind == CollectiveKind::None)
      continue;
    TraceTimes &times = trace.timesOf(work.unit);
    int64_t begin = work.record.begin, end = work.record.end;
    (work.row == TraceRow::Gather ? times.gather : times.reduce) += end - begin;
    times.exposed += uncovered(begin, end, computing);
  }
  for (auto [begin, end] : unite(std::move(communicating)))
    trace.exposed += uncovered(begin, end, computing);
}

} // namespace

CollectiveKind collectiveOf(const std::string &kernel) {
  if (!has(kernel, "nccl"))
    return CollectiveKind::None;
  for (auto [kind, name] : kKinds)
    if (has(kernel, name))
      return kind;
  return CollectiveKind::AllReduce;
}

void addGpuWork(Trace &trace, GpuTraceInput input) {
  std::sort(input.records.begin(), input.records.end(),
            [](const GpuRecord &a, const GpuRecord &b) {
              return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
            });
  std::vector<Work> list;
  for (const GpuRecord &record : input.records) {
    CollectiveKind kind = record.work == GpuWork::Kernel
                              ? collectiveOf(record.name)
                              : CollectiveKind::None;
    list.push_back({record, kind, rowOf(record, kind, input)});
  }
  for (auto [kind, name] : kKinds)
    if (std::string why = assign(list, kind, name, input.issued); !why.empty())
      trace.missing += (trace.missing.empty() ? "" : "; ") + why;
  addTimes(trace, list);
  // Spans of a row must not cross: what began while another still ran is
  // shown from the other's end on.
  std::array<int64_t, kTraceRows> shownUntil{};
  for (const Work &work : list) {
    int64_t &until = shownUntil[static_cast<size_t>(work.row)];
    int64_t begin = std::max(work.record.begin, until);
    if (begin >= work.record.end)
      continue;
    until = work.record.end;
    trace.add({nameOf(work.record), begin, until, work.unit, work.row});
  }
}

} // namespace shardonnx::rt::cuda
