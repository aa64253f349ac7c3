// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From records of what a GPU did to the rows of a trace: which queue each
// kernel was on, which unit's collective it was, and how long collectives ran
// while nothing was computed. Nothing here needs a GPU.

#ifndef SHARDONNX_RUNTIME_CUDA_GPUTRACE_H
#define SHARDONNX_RUNTIME_CUDA_GPUTRACE_H

#include "../../core/Trace.h"
#include <map>
#include <string>
#include <vector>

namespace shardonnx::rt::cuda {

enum class GpuWork : uint8_t { Kernel, Upload, Download, Move, Fill };

struct GpuRecord {
  const char *name;   // of a kernel; lives as long as the trace
  int64_t begin, end; // monotonicNanoseconds
  uint32_t stream = 0;
  bool graph = false; // a graph's node: its stream is the driver's choice
  GpuWork work = GpuWork::Kernel;
};

enum class CollectiveKind : uint8_t {
  None,
  AllGather,
  ReduceScatter,
  SendReceive,
  AllReduce
};

/// A collective in the order of issue.
struct IssuedCollective {
  CollectiveKind kind;
  TraceRow row;      // the queue
  int32_t unit = -1; // -1: the norm or the loss
};

/// What NCCL's kernel of this name does; None: it is not NCCL's. NCCL's kernels
/// whose names tell nothing are taken for all-reduces, of which there is none
/// that could be mistaken for another.
CollectiveKind collectiveOf(const std::string &kernel);

struct GpuTraceInput {
  std::vector<GpuRecord> records;
  std::vector<IssuedCollective> issued;
  std::map<uint32_t, TraceRow> rowOfStream;
  bool severalRanks = false;
};

/// Adds the events and times to the trace. Collectives of one kind run in the
/// order of issue; where the GPU did more or fewer of a kind than were issued,
/// they stay without a unit, and trace.missing says so.
void addGpuWork(Trace &trace, GpuTraceInput input);

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_GPUTRACE_H
