// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NCCL as a table of functions, loaded when a run has more than one rank, and
// a communicator that is made with a deadline. <nccl.h> gives the types only:
// nothing of the library is linked.

#ifndef SHARDONNX_RUNTIME_CUDA_NCCL_H
#define SHARDONNX_RUNTIME_CUDA_NCCL_H

#include "../../comm/Exchange.h"
#include "../driver/Memory.h"
#include "shardonnx/runtime/ABI.h"
#include <nccl.h>
#include <string>
#include <vector>

/// Every function of the library that this runtime calls.
#define SHX_NCCL_FUNCTIONS(X)                                                  \
  X(ncclAllGather)                                                             \
  X(ncclAllReduce)                                                             \
  X(ncclCommAbort)                                                             \
  X(ncclCommDeregister)                                                        \
  X(ncclCommDestroy)                                                           \
  X(ncclCommGetAsyncError)                                                     \
  X(ncclCommInitRankConfig)                                                    \
  X(ncclCommRegister)                                                          \
  X(ncclCommSplit)                                                             \
  X(ncclGetErrorString)                                                        \
  X(ncclGetLastError)                                                          \
  X(ncclGetUniqueId)                                                           \
  X(ncclGetVersion)                                                            \
  X(ncclGroupEnd)                                                              \
  X(ncclGroupStart)                                                            \
  X(ncclMemAlloc)                                                              \
  X(ncclMemFree)                                                               \
  X(ncclRecv)                                                                  \
  X(ncclReduceScatter)                                                         \
  X(ncclSend)

// …and those that 2.27 brought, null where it is older.
#define SHX_NCCL_WINDOW_FUNCTIONS(X)                                           \
  X(ncclCommWindowDeregister)                                                  \
  X(ncclCommWindowRegister)

namespace shardonnx::rt::cuda {

struct NcclApi {
/// NOLINTNEXTLINE(bugprone-macro-parentheses): it declares the name.
#define SHX_NCCL_MEMBER(name) decltype(&::name) name = nullptr;
  SHX_NCCL_FUNCTIONS(SHX_NCCL_MEMBER)
  SHX_NCCL_WINDOW_FUNCTIONS(SHX_NCCL_MEMBER)
#undef SHX_NCCL_MEMBER
  int version = 0; // 22809: 2.28.9
};

constexpr int kOldestNccl = 21900;  // ncclMemAlloc, ncclCommRegister
constexpr int kSharingNccl = 23000; // several ranks on one GPU

/// Loaded by the first call; throws an Error that says where it was looked for,
/// or that it is too old.
const NcclApi &nccl();
std::string ncclVersionText(int version);

/// The library's words for a result, with the last error of `communicator` (or
/// of the process) where it has one.
std::string describe(ncclResult_t result, ncclComm_t communicator = nullptr);
/// Throws an Error unless it succeeded. `what` completes "NCCL failed when ".
template <typename... Parts>
void check(ncclResult_t result, const Parts &...what) {
  if (result != ncclSuccess)
    fail("NCCL failed when ", concat(what...), ": ", describe(result));
}

ncclDataType_t ncclType(ShxDType dtype);

/// All ranks must have the same version, one that can do what this run asks:
/// `uuids` tell the GPUs of all ranks apart. Returns how many ranks the GPU
/// with the most has.
int checkNccl(const std::vector<int> &versions,
              const std::vector<std::string> &uuids);

/// The ranks of a communicator, by their order in it: first, first + stride, …
struct Members {
  int first = 0, stride = 1, count = 1;
  int index = 0; // of this rank
};

/// What the communicators of a run are made with.
struct NcclSetup {
  Control &control;
  Exchange &exchange;
  const Device &device;
  int ranksPerGpu;
};

/// One communicator, of one queue.
class NcclCommunicator {
public:
  /// Every rank makes the same in the same order, each with those that it
  /// shares it with. A rank that does not come, or dies meanwhile, ends the run
  /// with a sentence.
  NcclCommunicator(const NcclSetup &setup, const char *queue,
                   const Members &members);
  /// Of some ranks of `parent`, all of which make one: it knows the machines
  /// and their links already. With `lends` those that are made of this one use
  /// its buffers and connections. NCCL then runs their kernels and its own one
  /// after the other, so they must be of one queue.
  NcclCommunicator(const NcclSetup &setup, const char *queue,
                   const Members &members, const NcclCommunicator &parent,
                   bool lends = false);
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator &) = delete;
  NcclCommunicator &operator=(const NcclCommunicator &) = delete;
  operator ncclComm_t() const { return handle; }
  const char *queue() const { return name; }

  const Members members;

private:
  template <typename Make> void make(const NcclSetup &setup, Make make);

  const char *name;
  ncclComm_t handle = nullptr;
};

/// Memory that the communicators have registered, so that their collectives
/// read and write it in place: NCCL's own, in symmetric windows where the
/// library knows them. Every rank allocates the same in the same order.
class NcclAllocator : public Allocator {
public:
  NcclAllocator(Exchange &exchange, std::vector<ncclComm_t> communicators);
  CUdeviceptr allocate(int64_t bytes) override;
  void release(CUdeviceptr address) override;

private:
  struct Registration {
    ncclComm_t communicator;
    ncclWindow_t window; // or
    void *handle;
  };
  struct Block {
    CUdeviceptr address;
    std::vector<Registration> registrations;
  };
  std::string registerBlock(Block &block, int64_t bytes);
  void unregister(Block &block);

  Exchange &exchange;
  std::vector<ncclComm_t> communicators;
  std::vector<Block> blocks;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_NCCL_H
