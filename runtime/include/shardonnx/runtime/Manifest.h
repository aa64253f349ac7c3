// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The manifest of a program (docs/manifest.md) as a struct: read by the
// runtime at start and by `shardonnx inspect`.

#ifndef SHARDONNX_RUNTIME_MANIFEST_H
#define SHARDONNX_RUNTIME_MANIFEST_H

#include "shardonnx/runtime/Choices.h"
#include "shardonnx/runtime/ExternalFile.h"
#include "shardonnx/runtime/InputKind.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Lora.h"
#include "shardonnx/runtime/Mesh.h"
#include "shardonnx/runtime/Packing.h"
#include "shardonnx/runtime/UpdateTypes.h"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardonnx {

/// What a trace calls waits that are of no unit.
constexpr const char *kNoUnitName = "(norm and loss)";

struct Manifest {
  using InputKind = shardonnx::InputKind;
  struct Input {
    std::string name;
    InputKind kind = InputKind::Data;
    ShxDType dtype = SHX_F32;
    std::vector<int64_t> shape;
    int64_t limit = 0;                    // 0: any value
    int64_t ignoredLabel = kIgnoredLabel; // of labels
    int64_t elements() const;
    int64_t bytes() const;
  };
  // What the compiler found in the graph, or, with a reason, did not.
  struct Raised {
    std::string what, why;
    std::vector<std::string> nodes; // of the graph
  };
  // A parameter of the model that is not trained.
  struct Untrained {
    std::string name, reason;
  };
  // Sum: none, the sum over the labels of the step is the loss.
  enum class Denominator { Labels, Elements, Sum, Batches };
  struct Loss {
    LossKind kind = LossKind::CausalLm;
    Denominator denominator = Denominator::Labels;
    std::string input; // whose labels are counted
    int64_t shift = 0;
    int64_t perMicrobatch = 0;
  };
  struct Source {
    std::string file, dtype;
    int64_t offset = 0, length = 0;
    bool transposed = false; // of a two-dimensional parameter
    float addend = 0;        // the parameter is what the file has plus this
  };
  // A frozen weight of few bits.
  struct Packed {
    Packing packing = Packing::BF16;
    bool transposed = false; // [columns, rows] is what is packed
    int64_t length = 0;      // elements of its section
  };
  struct Param {
    std::string name, onnx;
    int64_t offset = 0;         // in its section
    std::vector<int64_t> shape; // of a rank's part, where it is split
    bool trainable = true;
    std::optional<Source> source;
    std::optional<DrawKind> draw = {};  // what no file has
    std::vector<std::string> tied = {}; // its other names
    std::string stateDict = {};         // the one that frameworks store
    std::optional<Packed> packed = {};
    std::optional<Split> split = {};   // over the tensor axis
    std::vector<int64_t> f8Steps = {}; // that it is scaled by, in 8 bits
    int64_t elements() const;
    // Of the whole parameter, which files have.
    std::vector<int64_t> wholeShape() const;
    int64_t wholeElements() const;
    // What it takes of its section.
    int64_t length() const { return packed ? packed->length : elements(); }
    // Of what is packed.
    int64_t rows() const { return shape[packed->transposed ? 1 : 0]; }
    int64_t columns() const { return shape[packed->transposed ? 0 : 1]; }
    /// `name` and the others: modules that share it have one each.
    std::vector<std::string> names() const;
  };
  struct Unit {
    std::string name;
    bool sharded = true;
    int64_t length = 0, frozenLength = 0;
    // Of the trainable elements, the first so many are matrices that Muon
    // updates: they have no second moment.
    int64_t matrixLength = 0;
    int64_t paramOffsetBytes = 0, gradOffsetBytes = 0, frozenOffsetBytes = 0;
    // In the private space, for one rank and one microbatch; -1: nowhere.
    int64_t gradPlaceBytes = -1;
    /// The same of the slice that one of several ranks owns, f32.
    int64_t slicePlaceBytes = -1;
    ShxDType paramType = SHX_F32, reduceType = SHX_F32;
    ShxDType masterType = SHX_F32;
    GatherDtype gatherType = GatherDtype::Param;
    // What the update writes of it (where gathers send masters, these) is the
    // gathered unit.
    bool gatherInPlace = false;
    std::vector<Param> params;
    bool reshards = false; // freed after forward, gathered again for backward
    // For people: what else a configuration has set for it.
    std::vector<std::pair<std::string, std::string>> policy;
    // Whole through all microbatches: gathered once a step, in @update.
    bool kept = false;
    // Gathered in @update for the next step's first microbatch.
    bool early = false;
    // Ranks that gather it again for backward; 0: all that own it.
    int64_t reshardGroup = 0;
    double flops = 0; // the unit's part of flopsPerMicrobatch
    bool isMatrix(const Param &param) const {
      return param.trainable && param.offset < matrixLength;
    }
    // Both sections, as they lie in the gathered buffer.
    int64_t gatheredBytes() const;
    // The same as a gather sends them (--gather-dtype).
    int64_t sentBytes() const;
    int64_t gradientBytes() const;
    // Whether products read it in 8 bits, as the update has left them.
    bool inCodes() const { return paramType == SHX_F8E4M3; }
    // Whether gathers send blocks with scales of their own (GatherCodes.h),
    // which they then decode.
    bool sendsImages() const {
      return gatherType != GatherDtype::Param && !inCodes();
    }
    // Whether gathers read the masters themselves: nothing is rounded between
    // them and the products.
    bool sendsMasters() const {
      return masterType == paramType && gatherType == GatherDtype::Param;
    }
  };
  // For people: a buffer that lives at the peak of its space.
  struct LiveBuffer {
    std::string name;
    int64_t bytes = 0;
  };
  struct Space {
    int64_t bytes = 0, lowerBoundBytes = 0;
    std::string peakAt;           // the function and the op that runs there
    std::vector<LiveBuffer> live; // at the peak, the largest first
  };
  // For people: one call that all ranks make together, or that of a copy
  // between a rank and its host memory.
  struct Collective {
    std::string op;
    int64_t unit = -1;           // -1: of no unit
    double flops = 0, bytes = 0; // computed and moved since the call before
    int64_t copy = -1;           // -1: none
    int64_t copiedBytes = 0;     // by the copy, where it starts
  };
  // For people: a kernel or a library call, and what it moves.
  struct Launch {
    std::string kind, name;
    double flops = 0, readBytes = 0, writtenBytes = 0;
    double leastBytes = 0; // that would have to be read and written
    double elements = 0;   // of a generated kernel's operands
    int64_t kernels = 0, calls = 0;
  };
  enum class Phase { Forward, Recompute, Backward };
  struct LaunchRun {
    size_t launch = 0; // among `launches`
    int64_t unit = -1; // -1: of no unit
    Phase phase = Phase::Forward;
    int64_t count = 0;
    size_t behind = 0; // so many of the function's collectives
  };
  // For people: a private buffer of a function, and why it is there. `smaller`:
  // the sum of those that are not told one by one.
  enum class BufferKind {
    Kept,
    Forward,
    Recomputed,
    Backward,
    Reloaded,
    Smaller
  };
  struct TimedBuffer {
    BufferKind kind = BufferKind::Kept;
    int64_t bytes = 0;
    size_t begin = 0, end = 0; // positions among `ops` between which it lives
    std::string name;
  };
  struct Function {
    std::string name;
    std::vector<Collective> collectives; // in the order of issue
    double flops = 0, bytes = 0;         // behind the last of them
    std::vector<LaunchRun> launches = {};
    // What runs, in order: one of `launches`, or -1 for the next of the
    // collectives. Of the first microbatch and the update.
    std::vector<int64_t> ops = {};
    std::vector<TimedBuffer> buffers = {};
  };

  int abi = 0;
  std::string version, name, hash, modelPath, modelSha256;
  ExternalFiles external;
  TargetKind target = TargetKind::CPU;
  std::string arch; // as in --arch
  int64_t batch = 0, seq = 0;
  Mesh mesh;
  int64_t meshBytes = 0; // a rank's part of what ranks of an axis share
  std::vector<Input> inputs;
  Loss loss;
  Strategy strategy = Strategy::FullShard;
  Optimizer optimizer = Optimizer::AdamW;
  ShxDType optimizerType = SHX_F32; // of its state
  // What was asked for; each unit has its own.
  ShxDType masterType = SHX_F32;
  GatherDtype gatherType = GatherDtype::Param;
  // Gradients stay whole over a step's microbatches: they are added up in the
  // unit's gradient buffer, and reduced behind the last.
  bool unshardedAccumulation = false;
  // What was asked for; each unit has its own.
  ShxDType paramType = SHX_F32, reduceType = SHX_F32;
  std::vector<Unit> units;
  std::vector<Function> functions;
  std::vector<Launch> launches; // of all functions, equal ones once
  Space privateSpace, gatherSpace, gradientSpace;
  Space hostSpace; // activations in pinned host memory
  int64_t scratchPerThreadBytes = 0;
  int64_t constantBytes = 0; // on a GPU
  double flopsPerMicrobatch = 0;
  std::vector<Raised> raised;
  std::vector<Untrained> untrained;
  std::optional<Lora> lora;       // adapters beside a frozen base
  int64_t documentSeparator = -1; // the token that ends a document; -1: none
  // Of a microbatch: as many as cuDNN's attention takes; 0: it takes none.
  int64_t maxDocuments = 0;

  bool cuda() const { return target == TargetKind::CUDA; }
  // One master copy in each group of ranks, the groups being replicas.
  bool hybrid() const { return isHybrid(strategy); }
  // Whether parameters or gradients are float16: small gradients are zero in
  // it, so the loss is scaled.
  bool usesF16() const;
  // Whether all units are gathered in place.
  bool gathersInPlace() const;
  // …as the masters themselves.
  bool gathersMasters() const;
  // Tensors of a parameter's size that the optimizer keeps.
  int optimizerStates() const { return statesOf(optimizer); }
  // Of int8, a scale for each block beside them.
  bool blockwiseState() const { return optimizerType == SHX_I8; }
  int64_t sliceAlignment() const {
    bool blocks = blockwiseState() || gatherType != GatherDtype::Param;
    return blocks ? kStateBlock : kSliceAlignment;
  }
  // What one of them takes for so many elements of a slice, scales included.
  int64_t stateBytes(int64_t elements) const;
  // What all of them take for so many elements of a slice of the unit.
  int64_t momentBytes(const Unit &unit, const Interval &elements) const;
  bool hasMatrices() const;
  // How many steps weights are scaled by that products read in 8 bits.
  int64_t f8Steps() const;
  // Tokens (or samples, without a sequence) of one microbatch of one rank.
  int64_t tokensPerMicrobatch() const;
};

template <> struct Spellings<Manifest::Denominator> {
  using Denominator = Manifest::Denominator;
  static constexpr Spelling<Denominator> table[] = {
      {Denominator::Labels, "labels"},
      {Denominator::Elements, "elements"},
      {Denominator::Sum, "sum"},
      {Denominator::Batches, "batches"}};
};

template <> struct Spellings<Manifest::Phase> {
  using Phase = Manifest::Phase;
  static constexpr Spelling<Phase> table[] = {{Phase::Forward, "forward"},
                                              {Phase::Recompute, "recompute"},
                                              {Phase::Backward, "backward"}};
};

template <> struct Spellings<Manifest::BufferKind> {
  using BufferKind = Manifest::BufferKind;
  static constexpr Spelling<BufferKind> table[] = {
      {BufferKind::Kept, "kept for backward"},
      {BufferKind::Forward, "forward"},
      {BufferKind::Recomputed, "recomputed"},
      {BufferKind::Backward, "backward"},
      {BufferKind::Reloaded, "back from the host"},
      {BufferKind::Smaller, "smaller buffers"}};
};

int64_t dtypeBytes(ShxDType dtype);

// Reads a manifest. A compiler's mistake or a damaged executable is told in
// `error`, one line.
std::optional<Manifest> parseManifest(std::string_view json,
                                      std::string &error);

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_MANIFEST_H
