// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a rank's device and its links can do, and how long work and collectives
// take on them. The figures stand in lib/Cost/Devices, each with its source;
// docs/plan.md says what they mean. No MLIR here.

#ifndef SHARDONNX_COST_DEVICE_H
#define SHARDONNX_COST_DEVICE_H

#include "shardonnx/runtime/Choices.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardonnx {

/// What joins ranks: each sends at this rate.
struct Link {
  double bytesPerSecond = 0;
};

/// Ranks that communicate, each so many ranks behind the one before. All ranks
/// of a run are in such groups, which communicate at the same time.
struct RankGroup {
  // Neighbours, where no stride is given.
  RankGroup(int64_t ranks, int64_t stride = 1) : ranks(ranks), stride(stride) {}
  int64_t ranks, stride;
};

/// A way to send: what passes before the first step of a ring, what each step
/// takes within a machine and between machines, and the share of the wire that
/// is left for data. Of several, the fastest for a size is taken.
struct Protocol {
  std::string name;
  double baseSeconds = 0, withinStep = 0, acrossStep = 0;
  double share = 1;
};

/// How fast one library's attention is in 16 bits: FLOPs a second by the length
/// of a sequence, where a causal mask leaves half of the FLOPs out.
struct AttentionRates {
  std::string library;
  bool backward = false, causal = false;
  double headDim = 0;
  struct Point {
    double sequence = 0, flops = 0;
  };
  std::vector<Point> points; // the shortest first
};

/// Of one launch; a headDim of 0: not known.
struct AttentionShape {
  double sequence = 0, headDim = 0;
  bool causal = false, backward = false;
};

/// What a copy between a GPU and its host takes beside its bytes.
constexpr double kHostCopySeconds = 1e-5;

/// What this runtime's GPU programs call.
constexpr const char *kOwnAttention = "cudnn";

/// What a thread of a CPU reaches in the programs themselves, a second. A
/// product takes time for its FLOPs and for the bytes that it packs.
struct ThreadRates {
  double productFlops = 0, productBytes = 0;
  double attentionForward = 0, attentionBackward = 0, lossFlops = 0;
  double rowBytes = 0, columnBytes = 0; // of generated kernels
  double sliceBytes = 0;                // the optimizer, the norm
  void scale(double factor);
};

/// The words of a device file for them.
extern const std::pair<const char *, double ThreadRates::*> kThreadRates[8];

struct Device {
  std::string name, title;
  TargetKind target = TargetKind::CPU;
  std::string arch; // as --arch has it
  double memoryBytes = 0, reservedBytes = 0;
  double f32Peak = 0, halfPeak = 0; // FLOPs a second of the data sheet
  double f32Flops = 0;  // a second, in full and deep tiles of products
  double halfFlops = 0; // with bf16 or f16 operands
  double f8Flops = 0;   // with operands of 8 bits; 0: not known
  std::vector<AttentionRates> attention;
  // FLOPs a second of attention that `attention` says nothing of.
  double attentionForward = 0, attentionBackward = 0;
  // A product is cut into tiles, which go over the multiprocessors in waves.
  double multiprocessors = 1, tileRows = 1, tileColumns = 1;
  double tileDepth = 0; // at which starting a tile takes as long as its work
  double memoryBytesPerSecond = 0;
  double launchSeconds = 0;             // of a kernel, at least
  double collectiveMultiprocessors = 0; // that a queue's collectives take
  double hostBytesPerSecond = 0;        // to where offloaded slices lie
  Link within, across;                  // of one machine, between machines
  std::vector<Protocol> protocols;
  int64_t perMachine = 0;    // ranks; 0: all of them
  bool sharedMemory = false; // ranks read each other's memory: no steps
  /// Of a CPU that `plan --calibrate` has measured, in f32 and in 16 bits: a
  /// thread alone in its rank, and one of all of the machine's in one rank.
  struct Measured {
    ThreadRates alone, together;
  };
  std::optional<Measured> f32Measured, halfMeasured;
  double machineThreads = 0; // that these were measured on
  /// Of a rank, by withThreads; none: the figures above are all there is.
  std::optional<ThreadRates> f32Rates, halfRates;

  /// How long products and everything else take, whichever is longer.
  double workSeconds(double flops, double bytes, bool half) const;
  /// A product of rows x depth by depth x columns, `count` of them at once.
  double productSeconds(double rows, double depth, double columns, double count,
                        double bytes, bool half) const;
  /// The same of operands of 8 bits.
  double f8ProductSeconds(double rows, double depth, double columns,
                          double bytes) const;
  /// Of the rate of large products, what such a one reaches.
  double productShare(double rows, double depth, double columns,
                      double count) const;
  double attentionSeconds(double flops, double bytes,
                          const AttentionShape &shape, bool half,
                          const std::string &library = kOwnAttention) const;
  /// A copy to pinned memory of the host, or from it.
  double hostCopySeconds(double bytes) const;
  /// An all-gather to, or a reduce-scatter from, `bytes` on each of `group`.
  double gatherSeconds(double bytes, const RankGroup &group) const;
  double reduceScatterSeconds(double bytes, const RankGroup &group) const;
  double allReduceSeconds(double bytes, const RankGroup &group) const;
  /// Each rank gives every rank an even part of its `bytes`.
  double allToAllSeconds(double bytes, const RankGroup &group) const;
  /// What a large collective takes beside its bytes.
  double latencySeconds(const RankGroup &group) const;
  /// Bytes of a gathered unit whose transfer takes as long as the latency: of
  /// two neighbours that are gathered one after the other, a smaller one is
  /// better gathered with the other.
  int64_t latencyBytes(const RankGroup &group) const;
  /// Of the links that `group` sends over, the share that `others` take while
  /// they send.
  double shareTaken(const RankGroup &group, const RankGroup &others) const;

private:
  double attentionRate(const AttentionShape &shape,
                       const std::string &library) const;
  int64_t ranksHere(const RankGroup &group) const;
  bool isOneMachine(const RankGroup &group) const;
  Link linkOf(const RankGroup &group) const;
  double latencyOf(const Protocol &protocol, const RankGroup &group) const;
  double sendSeconds(double bytes, const RankGroup &group) const;
};

/// One of deviceNames(), or `a100`; a CPU has one thread.
std::optional<Device> deviceNamed(const std::string &name);
std::vector<std::string> deviceNames();

/// The file of one of deviceNames(); "" if there is none.
std::string deviceFile(const std::string &name);

/// A device file's content; `error` is one line that says what is wrong where.
std::optional<Device> parseDevice(const std::string &json, std::string &error);

/// A rank of `threads` threads on a CPU.
Device cpuDevice(int threads);
/// The same of a device whose figures are one thread's, for one of so many
/// ranks of a machine.
Device withThreads(Device device, int threads, int64_t ranksHere = 1);

/// The device that a program is for: of --target=cuda the one of its oldest
/// architecture, sm_80 an A100, later ones an H100.
Device deviceOfProgram(bool cuda, const std::string &arch, int threads);

} // namespace shardonnx

#endif // SHARDONNX_COST_DEVICE_H
