// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What `shardonnx inspect` says about a program, as text and as JSON. Both
// read the manifest, so a model and its executable print the same.

#ifndef SHARDONNX_LIB_DRIVER_INSPECTREPORT_H
#define SHARDONNX_LIB_DRIVER_INSPECTREPORT_H

#include "RunLog.h"
#include "TraceLog.h"
#include "shardonnx/Cost/Device.h"
#include "shardonnx/Cost/Exposure.h"
#include "shardonnx/Cost/Traffic.h"
#include "shardonnx/Driver/Options.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Manifest.h"
#include "shardonnx/runtime/MemoryPlan.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace shardonnx {

/// What the answers depend on beside the program.
struct InspectView {
  Topology topology;
  int64_t accumulate = 1; // microbatches of a step
  int threadsPerRank = 1;
  Offload offload = Offload::None;
  bool parameters = false;      // a line for each, in the text
  bool traffic = false;         // what a step moves through memory
  bool bounded = false;         // a page must open at once: no long lists
  std::optional<RunMemory> run; // what a run has measured
  Device device;                // whose times are predicted
  std::optional<MeasuredExposure> trace;
};

/// A program and what is to be told of it.
struct Inspected {
  Manifest manifest;
  InspectView view;
};

/// Of a model, as it would be compiled, or an executable. On failure the error
/// has been printed.
mlir::FailureOr<Inspected> inspectProgram(const InspectOptions &options,
                                          Diagnostics &diagnostics);

/// kExitDone where all of standard output has been written.
int finishOutput(Diagnostics &diagnostics);

/// The interval of a section that is shared by all ranks, cut to one
/// parameter and counted from its first element; empty when they do not meet.
Interval cutToParameter(Interval owned, const Manifest::Param &param);

/// What each rank sends in a step.
StepTraffic stepTraffic(const Manifest &manifest, const InspectView &view);

/// The unit around each one, as an index: that of the innermost module that
/// holds it, else the root; -1 for the root itself.
std::vector<int64_t> parentsOf(const Manifest &manifest);

/// What the loss is a mean of, in words.
std::string describeLoss(const Manifest &manifest);

/// Elements of a unit's parameters, without the padding.
int64_t countParameters(const Manifest::Unit &unit, bool trainable);

/// The communication of a step, predicted and, with a trace, measured.
void printExposure(const Manifest &manifest, const InspectView &view,
                   llvm::raw_ostream &out);
void writeExposedByAxis(llvm::json::OStream &json, const StepExposure &step);
void writeExposure(llvm::json::OStream &json, const Manifest &manifest,
                   const InspectView &view);

/// What a step moves through memory, launch by launch.
void printMemoryTraffic(const Manifest &manifest, const InspectView &view,
                        llvm::raw_ostream &out);
void writeMemoryTraffic(llvm::json::OStream &json, const Manifest &manifest,
                        const InspectView &view);

/// The step over time: queues, and what lives in memory.
void writeTimeline(llvm::json::OStream &json, const Manifest &manifest,
                   const InspectView &view);
/// Kernels and products against what the device can do.
void writeRoofline(llvm::json::OStream &json, const Manifest &manifest,
                   const InspectView &view);

/// Which rank of a group owns each of the unit's parameters that is a matrix of
/// Muon's; -1: it is none. And how that work is shared out.
std::vector<int> muonOwners(const Manifest &manifest,
                            const Manifest::Unit &unit,
                            const Topology &topology);
void printMuon(const Manifest &manifest, const InspectView &view,
               llvm::raw_ostream &out);

/// The mesh, and what a rank sends along its axes.
void printMesh(const Manifest &manifest, const InspectView &view,
               llvm::raw_ostream &out);
void writeMesh(llvm::json::OStream &json, const Manifest &manifest,
               const InspectView &view);

void printInspectText(const Manifest &manifest, const InspectView &view,
                      llvm::raw_ostream &out);
void printInspectJson(const Manifest &manifest, const InspectView &view,
                      llvm::raw_ostream &out);

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_INSPECTREPORT_H
