// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What generated code holds a pointer to on CUDA: the head that it knows
// (ShxContext), and behind it what the entry points need to enqueue their
// work. docs/cuda.md tells how a program runs.

#ifndef SHARDONNX_RUNTIME_CUDA_CONTEXT_H
#define SHARDONNX_RUNTIME_CUDA_CONTEXT_H

#include "../driver/Device.h"
#include "../driver/Images.h"
#include "../driver/Memory.h"
#include "../driver/Stream.h"
#include "../trace/GpuTrace.h"
#include "shardonnx/runtime/Mesh.h"
#include "shardonnx/runtime/MeshABI.h"
#include <cstddef>

namespace shardonnx::rt::cuda {

class Attention;
class Documents;
class Gemm;
class HostCopies;
class Muon;
class Staging;
class State;
class UpdateBranch;
class WeightSteps;

/// Each of the program's functions runs in this order, and its entry points do
/// what the mode says.
enum class Mode {
  /// Nothing is enqueued: library calls look at their descriptors and make
  /// what they need (plans, algorithms, modules), all of which may synchronise,
  /// allocate and time. Every buffer that a call is given exists; those that it
  /// writes may be overwritten (nothing of a step is in them yet), except for
  /// the masters, moments and scalars.
  Prepare,
  // Work is enqueued on the streams and nothing else happens: they may be
  // capturing it for a graph, which forbids synchronising and allocating. The
  // same addresses and descriptors come as when preparing.
  Enqueue,
};

/// What of @update is issued: with the optimizers beside the next step, what
/// ends with the norm belongs to the step, and the rest to the branch.
enum class UpdatePart { All, Norm, Optimizers };

/// Numbers in device memory that more than one kernel uses. All ranks' numbers
/// lie in the order of ranks.
struct Cells {
  float *scalars = nullptr;             // [SHX_NUM_SCALARS], before `steps`
  float *scalarsWithoutDecay = nullptr; // …SHX_WEIGHT_DECAY being 0
  /// What the optimizers read of both: a copy that outlives the step where they
  /// run beside the next one, else the same.
  float *optimizerScalars = nullptr;
  float *optimizerScalarsWithoutDecay = nullptr;
  /// Of weights that products read in 8 bits, SHX_STEP_STRIDE apart.
  float *steps = nullptr;
  /// Of this rank's microbatches: their sum, and what evaluation divides by.
  double *loss = nullptr;       // [2]
  double *losses = nullptr;     // [ranks][2]
  double *squares = nullptr;    // this rank's part of the squared norm
  double *allSquares = nullptr; // [ranks]
  double *partials = nullptr;   // of squares, as many as there are chunks
  double *norm = nullptr;       // of the step's gradients, before clipping
  /// [3]: whose index was outside of its axis (kernels/OutsideCells.h), the
  /// first such one, and the axis's size. Null: nobody wants to know.
  int64_t *outside = nullptr;
};

/// The ways of a unit's matrices, in their order: between the ranks of the
/// shard group, and, of matrices that are split over the tensor axis, between
/// the owners of their parts.
enum class Matrices { ToOwners, Join, Part, FromOwners };
constexpr size_t kMatrixWays = 4;
/// Bytes that go to another rank of the shard group or the tensor axis, or come
/// from it.
struct Transfer {
  int peer; // its place there
  void *data;
  int64_t bytes;
  bool sends;
};

/// What the ranks of an axis of the mesh exchange: parts that lie behind one
/// another.
struct AxisExchange {
  ShxAxisCall call; // none that sends nothing
  MeshAxis axis;
  ShxDType dtype;
  const void *from;
  void *to;
  int64_t bytes;      // of a part; of a sum that all have or a shift, all
  int32_t behind = 0; // of a shift
};

/// The queues of communication, and what the ranks tell each other: SingleRank
/// when there is one, else NCCL's. It is made when the context has its device,
/// images and stream; context.state is there before the first call of the ABI.
class Collectives {
public:
  virtual ~Collectives() = default;

  /// The memory that its collectives are fastest on: gathered parameters and
  /// gradients lie in it.
  virtual Allocator &symmetric() = 0;

  /// The calls of the ABI, which enqueue nothing when preparing. Nothing of an
  /// earlier function is waited for: all of it is done when a function begins.
  virtual void gatherStart(size_t unit) = 0;
  virtual void gatherWait(size_t unit) = 0;
  virtual void gatherFree(size_t unit) = 0;
  /// Before the free behind the forward: what the next gather is made of.
  virtual void gatherReshard(size_t) {}
  virtual void gradAcquire(size_t unit) = 0;
  virtual void reduceStart(size_t unit, bool accumulate) = 0;
  virtual void reduceWait(size_t unit) = 0;

  /// The masters of the unit have changed, as work of the compute stream.
  virtual void updated(size_t) {}

  /// Before a function is prepared, captured or launched: its name. After that,
  /// outside any capture. Between the two, and until the compute stream is
  /// there, a watchdog sees to it that something moves.
  virtual void announce(const char *) {}
  virtual void launched() {}

  /// Whole matrices of a unit at their owners, and back. Behind what the
  /// compute stream has so far, and behind the ways before; every rank of the
  /// group or the axis calls with what matches. A wait is for all ways so far.
  virtual void matricesStart(size_t, Matrices, const std::vector<Transfer> &) {}
  virtual void matricesWait(size_t, Matrices) {}

  /// Before the first call of a function, and after its last: makes the compute
  /// stream wait for all that this function left on the other streams.
  virtual void beginFunction() = 0;
  virtual void endFunction() = 0;

  /// Behind what the compute stream has so far, which waits for it: at once, or
  /// for the first that was started without a wait. One rank has no mesh.
  virtual void exchangeAlong(const AxisExchange &) {}
  virtual void startAlong(const AxisExchange &) {}
  virtual void waitAlong() {}
  /// This rank's place on the axis.
  virtual int axisRank(MeshAxis) const { return 0; }

  /// As work of the compute stream: `count` doubles of each rank, in the order
  /// of ranks, from device memory to device memory.
  virtual void allGather(const double *mine, double *all, size_t count) = 0;

  /// As work of the compute stream: each number becomes the largest of all
  /// ranks'. One rank has it.
  virtual void largest(uint32_t *, size_t) {}

  /// On the host, at once, and in any mode: rank 0's bytes reach all. Every
  /// rank calls it, in one order.
  virtual void broadcast(void *data, size_t bytes) = 0;

  /// The streams of its queues, for the trace.
  virtual std::vector<std::pair<CUstream, TraceRow>> queues() const {
    return {};
  }
};

struct Context : ShxContext {
  Mode mode = Mode::Enqueue;
  int rank = 0, ranks = 1;
  const Device *device = nullptr;
  CUstream compute = nullptr;
  /// The stream whose captured launches may begin before the kernel ahead of
  /// them has ended; null: none.
  CUstream dependent = nullptr;
  Images *programImages = nullptr; // generated kernels
  Images *runtimeImages = nullptr; // kernels/
  State *state = nullptr;
  Collectives *collectives = nullptr;
  Staging *staging = nullptr;       // null: nothing is offloaded
  HostCopies *hostCopies = nullptr; // null: no activations on the host
  Muon *muon = nullptr;             // null: no matrices of --optimizer=muon
  WeightSteps *steps = nullptr;     // null: no products read weights in 8 bits
  UpdateBranch *branch = nullptr;   // null: the update is by itself
  Gemm *gemm = nullptr;             // the algorithms of matrix products
  Attention *attention = nullptr;   // cuDNN's plans; null: our kernels alone
  Documents *documents = nullptr;   // null: cuDNN is given none
  /// Whether what is issued is for microbatches whose documents cuDNN may take.
  bool documentsFit = false;
  bool tookDocuments = false; // cuDNN, in what has been issued
  Cells cells;
  bool poison = false;     // what is freed, or about to be written anew
  double clipGradNorm = 0; // 0: off
  int64_t step = 0;        // that is being enqueued, for messages
  /// Of the step's microbatches, the one whose function is being issued.
  bool firstMicrobatch = true, lastMicrobatch = true;
  /// Of the update that is being issued; and whether the norm has been.
  UpdatePart updatePart = UpdatePart::All;
  bool behindNorm = false;
  /// What was enqueued last on the compute stream, for the message of an error
  /// that comes later.
  const char *lastWork = "nothing yet";

  /// Where collectives are noted as they are enqueued; null: nowhere.
  std::vector<IssuedCollective> *issued = nullptr;

  bool preparing() const { return mode == Mode::Prepare; }
  /// What is called now belongs to the other part of the update.
  bool leavesOut() const {
    return updatePart != UpdatePart::All &&
           behindNorm != (updatePart == UpdatePart::Optimizers);
  }
};

inline Context &contextOf(ShxContext *context) {
  return *static_cast<Context *>(context);
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_CONTEXT_H
