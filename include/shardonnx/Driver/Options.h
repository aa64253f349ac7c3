// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a compilation depends on: one struct for the command line, the JSON
// configuration and the manifest. No MLIR here, so that the command line's
// parser need not compile against it.

#ifndef SHARDONNX_DRIVER_OPTIONS_H
#define SHARDONNX_DRIVER_OPTIONS_H

#include "shardonnx/Driver/Level.h"
#include "shardonnx/Support/Lora.h"
#include "shardonnx/Support/Recompute.h"
#include "shardonnx/runtime/Mesh.h"
#include "shardonnx/runtime/Offload.h"
#include "shardonnx/runtime/UpdateTypes.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardonnx {

/// Exit codes of the contract.
enum ExitCode { kExitDone = 0, kExitInput = 1, kExitUsage = 2 };

/// One entry of a configuration's `units`: which modules make a unit (or one
/// each), and what holds there instead of the program's own options.
struct UnitPolicy {
  std::vector<std::string> modules; // regexes; block, size:N or root alone
  bool together = false;            // all matches are one unit
  std::optional<ShxDType> paramDtype, reduceDtype, outputDtype;
  std::optional<MatmulDtype> matmulDtype;
  std::optional<GatherDtype> gatherDtype;
  std::optional<bool> castForwardInputs;
  std::optional<int64_t> reshard; // 0: stays gathered, 1: freed, K: to K ranks
  std::optional<RecomputeKind> recompute; // none, block or selective
  std::optional<int64_t> forwardPrefetch, backwardPrefetch;
  std::optional<bool> kept; // gathered between steps
};

/// What a compilation makes of a graph: the step that trains it, or one
/// function that computes its outputs from all that it reads, and gradients of
/// their sum.
enum class ProgramKind { Train, Eval, EvalGradients };

struct CompileOptions {
  std::string model;
  std::string output; // empty: the model's stem
  ProgramKind program = ProgramKind::Train;

  TargetKind target = TargetKind::CPU;
  std::string arch = "native";

  std::optional<int64_t> batch, seq;
  std::map<std::string, int64_t> dims; // by name

  std::optional<LossKind> loss; // none: decided from the outputs
  std::string logits;           // name of the graph output

  Mesh mesh;
  ContextAttention contextAttention = ContextAttention::Auto;
  std::string tensorPlan; // a file; empty: as the graph says
  Strategy strategy = Strategy::FullShard;
  bool autoStrategy = false; // what a plan takes for worldSize
  std::vector<std::string> units = {"block"};
  std::vector<UnitPolicy> unitPolicies; // before `units` where both match
  ShxDType paramDtype = SHX_F32, reduceDtype = SHX_F32;
  std::optional<ShxDType> outputDtype; // none: as computed
  MatmulDtype matmulDtype = MatmulDtype::Param;
  std::optional<double>
      matmulGain; // none: 1 where GPUs multiply 8 bits, else 0
  GatherDtype gatherDtype = GatherDtype::Param;
  Recompute recompute;
  bool offloadActivations = false;   // to host memory, of a GPU's program
  std::optional<int64_t> mlpChunks;  // none: 1; 0: as few as take the least
                                     // memory, or meet a budget
  bool overlapAxes = false;          // collectives of the mesh's, on GPUs
  std::optional<int64_t> axisChunks; // none: by predicted time
  int64_t forwardPrefetch = 1, backwardPrefetch = 1;
  std::optional<int64_t> memoryBudget; // bytes of a rank, at worldSize
  std::optional<int64_t> fit;          // the same: decides what is not given
  Optimizer optimizer = Optimizer::AdamW;
  ShxDType optimizerDtype = SHX_F32; // of its state
  ShxDType masterDtype = SHX_F32;
  AccumulateMode accumulateMode = AccumulateMode::Sharded;
  std::optional<int64_t> documentSeparator; // the token that ends a document
  std::optional<int64_t> maxDocuments;      // a sample, for cuDNN's attention
  std::vector<std::string> freeze, trainable;
  std::optional<Lora> lora;             // adapters on a frozen base
  std::vector<std::string> loraTargets; // none: all-linear
  std::optional<Packing> baseDtype;     // none: as paramDtype
  DropoutMode dropout = DropoutMode::Graph;
  MaskMode attentionMask = MaskMode::Auto;
  PositionMode positionIds = PositionMode::Counted;
  std::vector<std::string> ignore; // whole on every rank
  bool strictNumerics = false;
  bool tf32 = false; // f32 products may round their operands to TF32
  std::optional<int64_t> worldSize;

  /// What a person has asked for, and `fit` leaves alone.
  struct {
    bool strategy = false, recompute = false, prefetch = false;
  } given;

  std::string config;                    // JSON file with the same keys
  std::optional<Level> emit;             // stop at a level and print it
  std::vector<std::string> printIRAfter; // pass names, or "all"
  std::string dumpDir;
  bool timing = false;
  bool cache = true; // objects of earlier compilations
  bool printLocations = false;
};

struct InspectOptions {
  CompileOptions compile; // compile.model may be an executable
  int64_t nproc = 1, replicas = 1;
  int64_t accumulate = 1;  // microbatches of a step
  bool parameters = false; // a line for each
  bool traffic = false;    // what a step moves through memory, in place of it
  bool json = false;
  Offload offload = Offload::None; // as the executable's
  std::string html;                // a page for people is written there
  std::string vary;   // NAME=A,B: a line for each value of an option
  std::string log;    // of a run, whose memory stands beside the prediction
  std::string trace;  // of a run, whose waits stand beside those predicted
  std::string device; // or a file; empty: what the program is for
  bool compileOptionsGiven = false; // which say nothing about an executable
};

struct PlanOptions {
  CompileOptions compile;
  int64_t gpus = 0;
  std::optional<int64_t> gpusPerNode; // none: the device's machines
  std::string device;                 // one of deviceNames(), or a file
  std::optional<int64_t> memory;      // of a rank; none: the device's
  int64_t accumulate = 1;             // microbatches of a step
  std::optional<double> tokens;       // to train on
  std::optional<double> price;        // of a GPU's hour
  double straggler = 0;               // by this share one rank is slower
  std::string as = "shardonnx";       // or one of executionNames(), or a file
  bool searchesMeshes = true;         // where compile.mesh names none
  bool paramDtypeGiven = false, targetGiven = false;
  /// Options of compile as they were given, beside those that a plan decides.
  std::vector<std::string> compileArguments;
  bool json = false;
  std::string html;      // a page for people is written there
  std::string calibrate; // the device file to write instead of a plan
};

struct ExportOptions {
  std::string checkpoint; // or the folder that --save named
  std::string output;     // -: standard output; a folder: a PEFT adapter
  bool merge = false;     // adapters into the weights beside them
  std::string format;     // onnx or safetensors; empty: by the output's name
  std::string model;      // the ONNX file; empty: where it was compiled from
};

/// `inspect` with one value of the option that varies.
struct InspectRow {
  std::string value;
  InspectOptions options;
};

/// Each returns an exit code; errors have been printed by then.
int runCompile(const CompileOptions &options);
int runInspect(const InspectOptions &options);
int runInspectRows(const std::string &name,
                   const std::vector<InspectRow> &rows);
int runPlan(const PlanOptions &options);
int runExport(const ExportOptions &options);

} // namespace shardonnx

#endif // SHARDONNX_DRIVER_OPTIONS_H
