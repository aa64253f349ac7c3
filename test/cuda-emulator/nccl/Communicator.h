// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A rank of an emulated NCCL communicator.

#ifndef SHARDONNX_TEST_CUDA_EMULATOR_COMMUNICATOR_H
#define SHARDONNX_TEST_CUDA_EMULATOR_COMMUNICATOR_H

#include "Segment.h"
#include <cuda.h>
#include <memory>
#include <mutex>
#include <nccl.h>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace shardonnx::emulator {

/// Communicators that share NCCL's resources: their kernels run one after the
/// other, whatever streams they are on.
struct Family {
  std::mutex mutex;
  CUstream stream = nullptr; // of the last operation
};

enum class Call : int32_t {
  None,
  AllGather,
  ReduceScatter,
  AllReduce,
  Broadcast,
  Reduce,
  Send,
  Recv,
  WindowRegister,
  WindowDeregister,
  Split
};
const char *nameOf(Call call);

struct Operation {
  Call call;
  uint64_t send, receive;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t reduction;
  /// Root or peer.
  int root;
};

class Communicator {
public:
  ~Communicator();

  /// Meets the others; ends early when aborted.
  ncclResult_t join(const std::string &identity, int ranks, int rank,
                    int device);
  /// Runs what a stream has come to. False if the context must fail.
  bool execute(const std::vector<Operation> &operations);
  /// All ranks, on the host: false if aborted. Fills others' values.
  bool meet(Post post, const int64_t (&mine)[4],
            std::vector<std::vector<int64_t>> &all);
  void abort();
  bool isAborted() const { return aborted; }

  int size = 0, rank = 0, device = 0;
  bool blocking = true;
  /// Its children are of its own family.
  bool shares = false;
  std::shared_ptr<Family> family = std::make_shared<Family>();
  /// Operations on streams that have begun and not ended.
  std::atomic<int> running{0};
  std::atomic<int> error{ncclSuccess};
  std::thread joining;

private:
  ncclResult_t checkDevices();
  using Step = std::atomic<uint64_t> RankArea::*;
  /// Everybody's turn; false if aborted.
  bool barrier(Step step);
  bool waitFor(const std::function<bool()> &there);
  /// A rank that will never come?
  void lookForTheDead();
  bool hangsNow() const;
  bool takeBuffers();
  bool sameCall(const Post &mine);
  bool collective(const Operation &operation);
  bool transfers(const std::vector<Operation> &operations);
  void reduceSlots(char *to, size_t first, size_t count,
                   const Operation &operation);

  std::unique_ptr<Segment> segment;
  std::atomic<bool> aborted{false};
  std::mutex turn;
  /// What the first operation takes of the device.
  std::shared_ptr<void> buffers;
};

unsigned bytesOf(ncclDataType_t type);
/// to[i] = the reduction of all sources, in their order.
void reduce(char *to, const std::vector<const char *> &from, size_t count,
            ncclDataType_t type, ncclRedOp_t op);

/// Communicators that were made and not yet destroyed.
class Live {
public:
  static Live &get();
  void add(ncclComm_t comm);
  bool remove(ncclComm_t comm);
  bool has(ncclComm_t comm);
  /// Another one of the same device in whose operations a stream is.
  bool othersRun(ncclComm_t than);

private:
  std::mutex mutex;
  std::set<ncclComm_t> all;
};

/// Inside of a group: it is done when the group ends.
bool deferAbort(ncclComm_t comm);
void abortNow(const std::vector<ncclComm_t> &all);

void complain(const std::string &what);
/// Remembers the message for ncclGetLastError and prints it.
ncclResult_t refuse(ncclResult_t result, const std::string &what);
const std::string &lastError();

} // namespace shardonnx::emulator

/// What ncclComm_t points to.
struct ncclComm {
  std::shared_ptr<shardonnx::emulator::Communicator> rank;
};

#endif
