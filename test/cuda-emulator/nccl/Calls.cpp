// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives and point-to-point calls: checked, grouped, put on streams.

#include "Communicator.h"
#include "driver/Hooks.h"
#include <utility>

using namespace shardonnx::emulator;

namespace {

/// Operations of a group on one communicator.
struct Batch {
  std::shared_ptr<Communicator> rank;
  CUstream stream;
  std::vector<Operation> operations;
};

struct Group {
  int depth = 0;
  std::vector<Batch> batches;
  std::vector<ncclComm_t> aborts;
};

Group &group() {
  static thread_local Group current;
  return current;
}

ncclResult_t submit(Batch batch) {
  if (shardonnxEmulatorDevice(batch.stream) != batch.rank->device)
    return refuse(ncclInvalidArgument,
                  "the stream is not of the communicator's device");
  {
    Family &family = *batch.rank->family;
    std::lock_guard<std::mutex> lock(family.mutex);
    CUstream last = std::exchange(family.stream, batch.stream);
    if (last && last != batch.stream)
      complain("communicators that share their resources are used on two "
               "streams, where NCCL lets each wait for the other");
  }
  std::string name = nameOf(batch.operations.front().call);
  auto *held = new Batch(std::move(batch));
  CUresult result = shardonnxEmulatorEnqueue(
      held->stream, name.c_str(),
      [](void *p) {
        auto *work = static_cast<Batch *>(p);
        return work->rank->execute(work->operations) ? CUDA_SUCCESS
                                                     : CUDA_ERROR_LAUNCH_FAILED;
      },
      held, [](void *p) { delete static_cast<Batch *>(p); });
  return result ? refuse(ncclUnhandledCudaError, "the stream takes no work")
                : ncclSuccess;
}

ncclResult_t checkState(ncclComm_t comm) {
  if (!comm || !Live::get().has(comm))
    return refuse(ncclInvalidArgument, "no communicator");
  int error = comm->rank->error;
  return static_cast<ncclResult_t>(error);
}

/// May the buffers share memory? Only exactly as "in place" is defined.
const char *checkOverlap(const Communicator &c, const Operation &o) {
  size_t bytes = o.count * bytesOf(o.type), n = static_cast<size_t>(c.size);
  bool gather = o.call == Call::AllGather;
  bool scatter = o.call == Call::ReduceScatter;
  uint64_t sendEnd = o.send + bytes * (scatter ? n : 1);
  uint64_t receiveEnd = o.receive + bytes * (gather ? n : 1);
  if (!o.send || !o.receive || o.send >= receiveEnd || o.receive >= sendEnd)
    return nullptr;
  uint64_t slice = bytes * static_cast<uint64_t>(c.rank);
  bool inPlace = gather    ? o.send == o.receive + slice
                 : scatter ? o.receive == o.send + slice
                           : o.send == o.receive;
  return inPlace ? nullptr : "the buffers overlap, but not in place";
}

ncclResult_t call(ncclComm_t comm, cudaStream_t stream,
                  const Operation &operation) {
  if (ncclResult_t result = checkState(comm))
    return result;
  Communicator &rank = *comm->rank;
  unsigned bytes = bytesOf(operation.type);
  if (!bytes || operation.root < 0 || operation.root >= rank.size)
    return refuse(ncclInvalidArgument,
                  std::string(nameOf(operation.call)) + ": type or root");
  if (operation.reduction > ncclAvg)
    return refuse(ncclInvalidArgument, "this reduction is not emulated");
  if ((operation.send | operation.receive) % bytes)
    return refuse(ncclInvalidArgument, std::string(nameOf(operation.call)) +
                                           ": a misaligned buffer");
  if (const char *why = checkOverlap(rank, operation))
    return refuse(ncclInvalidArgument,
                  std::string(nameOf(operation.call)) + ": " + why);
  CUstream on = reinterpret_cast<CUstream>(stream);
  if (!group().depth)
    return submit({comm->rank, on, {operation}});
  for (Batch &batch : group().batches)
    if (batch.rank == comm->rank) {
      if (batch.stream != on)
        return refuse(ncclInvalidUsage,
                      "a group with one communicator on two streams is not "
                      "emulated");
      batch.operations.push_back(operation);
      return ncclSuccess;
    }
  group().batches.push_back({comm->rank, on, {operation}});
  return ncclSuccess;
}

uint64_t address(const void *pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

} // namespace

ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (!group().depth)
    return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group().depth)
    return ncclSuccess;
  std::vector<Batch> batches = std::move(group().batches);
  group().batches.clear();
  abortNow(std::exchange(group().aborts, {}));
  for (Batch &batch : batches)
    if (ncclResult_t result = submit(std::move(batch)))
      return result;
  return ncclSuccess;
}

bool shardonnx::emulator::deferAbort(ncclComm_t comm) {
  if (!group().depth)
    return false;
  group().aborts.push_back(comm);
  return true;
}

ncclResult_t ncclAllGather(const void *send, void *receive, size_t count,
                           ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return call(comm, stream,
              {Call::AllGather, address(send), address(receive), count, type,
               ncclSum, 0});
}

ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream,
              {Call::ReduceScatter, address(send), address(receive), count,
               type, op, 0});
}

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return call(
      comm, stream,
      {Call::AllReduce, address(send), address(receive), count, type, op, 0});
}

ncclResult_t ncclBroadcast(const void *send, void *receive, size_t count,
                           ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return call(comm, stream,
              {Call::Broadcast, address(send), address(receive), count, type,
               ncclSum, root});
}

ncclResult_t ncclReduce(const void *send, void *receive, size_t count,
                        ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return call(
      comm, stream,
      {Call::Reduce, address(send), address(receive), count, type, op, root});
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type,
                      int peer, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream,
              {Call::Send, address(send), 0, count, type, ncclSum, peer});
}

ncclResult_t ncclRecv(void *receive, size_t count, ncclDataType_t type,
                      int peer, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream,
              {Call::Recv, 0, address(receive), count, type, ncclSum, peer});
}
