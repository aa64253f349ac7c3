// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Communicators come and go; memory and windows.

#include "Communicator.h"
#include "driver/Hooks.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>

using namespace shardonnx::emulator;

void shardonnx::emulator::complain(const std::string &what) {
  std::fprintf(stderr, "cuda emulator: NCCL: %s\n", what.c_str());
}

static std::mutex &errorMutex() {
  static std::mutex mutex;
  return mutex;
}
static std::string &errorText() {
  static std::string text;
  return text;
}

ncclResult_t shardonnx::emulator::refuse(ncclResult_t result,
                                         const std::string &what) {
  std::lock_guard<std::mutex> lock(errorMutex());
  complain(what);
  errorText() = what;
  return result;
}

const char *ncclGetLastError(ncclComm_t) {
  static thread_local std::string copy;
  std::lock_guard<std::mutex> lock(errorMutex());
  copy = errorText();
  return copy.c_str();
}

ncclResult_t ncclGetVersion(int *version) {
  const char *text = std::getenv("SHARDONNX_EMULATOR_NCCL_VERSION");
  *version = text ? std::atoi(text) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
  switch (result) {
  case ncclSuccess:
    return "no error";
  case ncclUnhandledCudaError:
    return "unhandled cuda error";
  case ncclSystemError:
    return "unhandled system error";
  case ncclInternalError:
    return "internal error";
  case ncclInvalidArgument:
    return "invalid argument";
  case ncclInvalidUsage:
    return "invalid usage";
  case ncclRemoteError:
    return "remote process exited or there was a network error";
  case ncclInProgress:
    return "NCCL operation in progress";
  default:
    return "unknown result code";
  }
}

static uint64_t randomNumber() {
  std::random_device device;
  return uint64_t(device()) << 32 | device();
}

static std::string nameOfSegment(uint64_t identity) {
  char text[64];
  std::snprintf(text, sizeof text, "/shardonnx-nccl-%016llx",
                static_cast<unsigned long long>(identity));
  return text;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  std::memset(id, 0, sizeof *id);
  uint64_t identity = randomNumber();
  std::memcpy(id->internal, &identity, sizeof identity);
  return ncclSuccess;
}

static ncclResult_t makeCommunicator(ncclComm_t *made, int ranks,
                                     uint64_t identity, int rank,
                                     const ncclConfig_t *config,
                                     std::shared_ptr<Family> family = nullptr) {
  CUdevice device;
  if (cuCtxGetDevice(&device))
    return refuse(ncclUnhandledCudaError, "no context");
  if (ranks < 1 || ranks > 64 || rank < 0 || rank >= ranks)
    return refuse(ncclInvalidArgument, "rank or number of ranks");
  if (config &&
      (config->size > sizeof(ncclConfig_t) || config->magic != 0xcafebeef))
    return refuse(ncclInvalidArgument, "the configuration was not initialised");
  auto communicator = std::make_shared<Communicator>();
  communicator->blocking = !config || config->blocking != 0;
  communicator->shares = config && config->splitShare == 1;
  if (family)
    communicator->family = std::move(family);
  auto join = [=] {
    return communicator->join(nameOfSegment(identity), ranks, rank, device);
  };
  if (communicator->blocking) {
    if (ncclResult_t result = join())
      return result;
    *made = new ncclComm{communicator};
    Live::get().add(*made);
    return ncclSuccess;
  }
  communicator->error = ncclInProgress;
  // The destructor waits for the thread.
  Communicator *self = communicator.get();
  std::string name = nameOfSegment(identity);
  self->joining = std::thread([=] {
    ncclResult_t result = self->join(name, ranks, rank, device);
    int progress = ncclInProgress;
    self->error.compare_exchange_strong(progress, result);
  });
  *made = new ncclComm{communicator};
  Live::get().add(*made);
  return ncclInProgress;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *made, int ranks,
                                    ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  uint64_t identity;
  std::memcpy(&identity, id.internal, sizeof identity);
  return makeCommunicator(made, ranks, identity, rank, config);
}

ncclResult_t ncclCommInitRank(ncclComm_t *made, int ranks, ncclUniqueId id,
                              int rank) {
  return ncclCommInitRankConfig(made, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommSplit(ncclComm_t of, int color, int key, ncclComm_t *made,
                           ncclConfig_t *config) {
  Communicator &parent = *of->rank;
  *made = nullptr;
  int64_t mine[4] = {color, key, static_cast<int64_t>(randomNumber() >> 1), 0};
  std::vector<std::vector<int64_t>> all;
  Post post{static_cast<int32_t>(Call::Split), 0, 0, 0, 0};
  if (!parent.meet(post, mine, all))
    return ncclInternalError;
  if (color == NCCL_SPLIT_NOCOLOR)
    return ncclSuccess;
  // Ranks of one colour by key, then by their old rank.
  std::vector<std::pair<int64_t, int>> members;
  uint64_t identity = 0;
  for (int r = 0; r < parent.size; ++r) {
    const std::vector<int64_t> &values = all[static_cast<size_t>(r)];
    if (values[0] != color)
      continue;
    if (members.empty())
      identity = static_cast<uint64_t>(values[2]);
    members.emplace_back(values[1], r);
  }
  std::sort(members.begin(), members.end());
  int rank = 0;
  while (members[static_cast<size_t>(rank)].second != parent.rank)
    ++rank;
  return makeCommunicator(made, static_cast<int>(members.size()), identity,
                          rank, config,
                          parent.shares ? parent.family : nullptr);
}

Live &Live::get() {
  static Live *all = new Live;
  return *all;
}

void Live::add(ncclComm_t comm) {
  std::lock_guard<std::mutex> lock(mutex);
  all.insert(comm);
}

bool Live::remove(ncclComm_t comm) {
  std::lock_guard<std::mutex> lock(mutex);
  return all.erase(comm) != 0;
}

bool Live::has(ncclComm_t comm) {
  std::lock_guard<std::mutex> lock(mutex);
  return all.count(comm) != 0;
}

bool Live::othersRun(ncclComm_t than) {
  std::lock_guard<std::mutex> lock(mutex);
  return std::any_of(all.begin(), all.end(), [&](ncclComm_t comm) {
    return comm != than && comm->rank->device == than->rank->device &&
           comm->rank->running > 0 && !comm->rank->isAborted();
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!comm)
    return ncclSuccess;
  if (!Live::get().remove(comm))
    return refuse(ncclInvalidArgument, "a communicator ends twice");
  if (comm->rank->joining.joinable())
    comm->rank->joining.join();
  // Work on streams and in graphs holds on to the rank itself.
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (!comm)
    return ncclSuccess;
  if (!Live::get().has(comm))
    return refuse(ncclInvalidArgument, "a communicator ends twice");
  if (deferAbort(comm))
    return ncclSuccess;
  if (Live::get().othersRun(comm))
    complain("one communicator is aborted while another of its device runs, "
             "which may never end: abort them in one group");
  abortNow({comm});
  return ncclSuccess;
}

/// None waits for another one's kernels.
void shardonnx::emulator::abortNow(const std::vector<ncclComm_t> &all) {
  for (ncclComm_t comm : all)
    comm->rank->abort();
  for (ncclComm_t comm : all)
    ncclCommDestroy(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  if (!Live::get().has(comm))
    return refuse(ncclInvalidArgument,
                  "ncclCommGetAsyncError of a communicator that is gone");
  *error = static_cast<ncclResult_t>(comm->rank->error.load());
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count) {
  *count = comm->rank->size;
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device) {
  *device = comm->rank->device;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank) {
  *rank = comm->rank->rank;
  return ncclSuccess;
}

// Memory. Windows are only checked: every collective copies anyway.

namespace {
struct Allocations {
  std::mutex mutex;
  std::set<CUdeviceptr> addresses;
  static Allocations &get() {
    static auto *all = new Allocations;
    return *all;
  }
};
} // namespace

ncclResult_t ncclMemAlloc(void **address, size_t bytes) {
  CUdeviceptr made;
  if (cuMemAlloc(&made, bytes))
    return refuse(ncclUnhandledCudaError, "ncclMemAlloc: no memory");
  *address = reinterpret_cast<void *>(made);
  std::lock_guard<std::mutex> lock(Allocations::get().mutex);
  Allocations::get().addresses.insert(made);
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void *address) {
  CUdeviceptr freed = reinterpret_cast<CUdeviceptr>(address);
  {
    std::lock_guard<std::mutex> lock(Allocations::get().mutex);
    if (!Allocations::get().addresses.erase(freed))
      return refuse(ncclInvalidArgument,
                    "ncclMemFree of what ncclMemAlloc did not give");
  }
  return cuMemFree(freed) ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t, void *address, size_t bytes,
                              void **handle) {
  if (!shardonnxEmulatorTranslate(reinterpret_cast<CUdeviceptr>(address), bytes,
                                  "ncclCommRegister"))
    return ncclInvalidArgument;
  *handle = address;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t, void *) {
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *address,
                                    size_t bytes, ncclWindow_t *window, int) {
  CUdeviceptr start = reinterpret_cast<CUdeviceptr>(address);
  CUdeviceptr base = 0;
  cuMemGetAddressRange(&base, nullptr, start);
  {
    std::lock_guard<std::mutex> lock(Allocations::get().mutex);
    if (!Allocations::get().addresses.count(base))
      return refuse(ncclInvalidUsage, "ncclCommWindowRegister of memory that "
                                      "is not of ncclMemAlloc");
  }
  if (start % NCCL_WIN_REQUIRED_ALIGNMENT)
    return refuse(ncclInvalidArgument, "a window that is not aligned to 4096");
  if (!shardonnxEmulatorTranslate(start, bytes, "ncclCommWindowRegister"))
    return ncclInvalidArgument;
  int64_t mine[4] = {};
  std::vector<std::vector<int64_t>> all;
  Post post{static_cast<int32_t>(Call::WindowRegister), 0, 0, 0, bytes};
  if (!comm->rank->meet(post, mine, all))
    return ncclInvalidUsage;
  *window = reinterpret_cast<ncclWindow_t>(address);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t) {
  return ncclSuccess;
}
