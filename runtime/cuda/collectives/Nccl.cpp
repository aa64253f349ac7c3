// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Nccl.h. Communicators are of NCCL's blocking kind: a call returns when
// its work is enqueued, which is what stream capture needs. What may hang, the
// making of one, runs on a thread of its own under the run's deadline.

#include "Nccl.h"
#include "../driver/CallTrace.h"
#include "../driver/Library.h"
#include "shardonnx/runtime/ByteSize.h"
#include "shardonnx/runtime/DevicePlan.h"
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <thread>

namespace shardonnx::rt::cuda {
namespace {

NcclApi loadNccl() {
  Library library = Library::ofToolkit("libnccl.so.2", "NCCL");
  NcclApi api;
  library.load(api.ncclGetVersion, "ncclGetVersion");
  if (api.ncclGetVersion(&api.version) != ncclSuccess ||
      api.version < kOldestNccl)
    fail("NCCL ('", library.path(), "') is version ",
         ncclVersionText(api.version), ", this program needs ",
         ncclVersionText(kOldestNccl), " or later: install a newer one");
#define SHX_NCCL_LOAD(name)                                                    \
  library.load(api.name, #name);                                               \
  SHX_TRACED(api, name, "nccl", #name)
  SHX_NCCL_FUNCTIONS(SHX_NCCL_LOAD)
#undef SHX_NCCL_LOAD
#define SHX_NCCL_FIND(name)                                                    \
  api.name = reinterpret_cast<decltype(api.name)>(library.find(#name));        \
  SHX_TRACED(api, name, "nccl", #name)
  SHX_NCCL_WINDOW_FUNCTIONS(SHX_NCCL_FIND)
#undef SHX_NCCL_FIND
  return api;
}

constexpr int kPolicyNccl = 22700; // ncclConfig_t has a CTA policy

// The identifier that the first of the members made.
ncclUniqueId identifierOf(const Members &members, Exchange &exchange) {
  ncclUniqueId id{};
  if (members.index == 0)
    check(nccl().ncclGetUniqueId(&id), "making an identifier");
  std::string mine(members.index == 0 ? sizeof(id.internal) : 0, 0);
  std::memcpy(mine.data(), id.internal, mine.size());
  std::string bytes =
      exchange.allGather(mine).at(static_cast<size_t>(members.first));
  if (bytes.size() != sizeof(id.internal))
    fail("rank ", members.first, "'s identifier for NCCL is cut off");
  std::memcpy(id.internal, bytes.data(), sizeof(id.internal));
  return id;
}

} // namespace

const NcclApi &nccl() {
  static const NcclApi api = loadNccl();
  return api;
}

std::string ncclVersionText(int version) {
  return concat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

std::string describe(ncclResult_t result, ncclComm_t communicator) {
  std::string text = nccl().ncclGetErrorString(result);
  const char *last = nccl().ncclGetLastError(communicator);
  return last && *last ? concat(text, " (", last, ")") : text;
}

ncclDataType_t ncclType(ShxDType dtype) {
  return dtype == SHX_F32      ? ncclFloat32
         : dtype == SHX_BF16   ? ncclBfloat16
         : dtype == SHX_F8E4M3 ? ncclUint8 // is moved, never added up
                               : ncclFloat16;
}

int checkNccl(const std::vector<int> &versions,
              const std::vector<std::string> &uuids) {
  for (size_t r = 1; r < versions.size(); ++r)
    if (versions[r] != versions[0])
      fail("rank 0 has NCCL ", ncclVersionText(versions[0]), ", rank ", r,
           " has NCCL ", ncclVersionText(versions[r]),
           ": install the same version everywhere");
  size_t most = 1;
  for (size_t r = 0; r < uuids.size(); ++r) {
    auto first = std::find(uuids.begin(), uuids.end(), uuids[r]);
    if (first == uuids.begin() + static_cast<std::ptrdiff_t>(r))
      continue;
    std::string who =
        concat("ranks ", first - uuids.begin(), " and ", r, " are on one GPU");
    const char *asked = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    if (versions[0] < kSharingNccl)
      fail(who, ", which NCCL ", ncclVersionText(versions[0]),
           " refuses: start one rank for each GPU, or install NCCL ",
           ncclVersionText(kSharingNccl));
    if (!asked || std::strcmp(asked, "1") != 0)
      fail(who, ": start one rank for each GPU, or set "
                "NCCL_MULTI_RANK_GPU_ENABLE=1 to let them share");
    most = std::max(most, static_cast<size_t>(std::count(
                              uuids.begin(), uuids.end(), uuids[r])));
  }
  return static_cast<int>(most);
}

// ---- Communicators

namespace {

ncclConfig_t configOf(const NcclSetup &setup) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  // Whatever blocks NCCL takes a product has not. NCCL_MAX_CTAS and
  // NCCL_CTA_POLICY, where they are set, count instead.
  config.maxCTAs = std::max(1, kQueueBlocks / setup.ranksPerGpu);
  if (nccl().version >= kPolicyNccl)
    config.CTAPolicy = NCCL_CTA_POLICY_EFFICIENCY;
  if (setup.ranksPerGpu > 1) // the switch cannot add for ranks of one GPU
    ::setenv("NCCL_NVLS_ENABLE", "0", /*overwrite=*/0);
  return config;
}

} // namespace

// `make` may never return. Its thread may outlive this call only in a process
// that is ending.
template <typename Make>
void NcclCommunicator::make(const NcclSetup &setup, Make make) {
  struct Making {
    ncclComm_t handle = nullptr;
    ncclResult_t result = ncclSuccess;
    std::string error;
    std::atomic<bool> done{false};
  };
  auto making = std::make_shared<Making>();
  Control &control = setup.control;
  std::thread([making, make, context = setup.device.context(),
               &control]() mutable {
    driver().cuCtxSetCurrent(context);
    making->result = make(&making->handle);
    if (making->result != ncclSuccess)
      making->error = describe(making->result);
    making->done.store(true);
    control.notify();
  }).detach();
  control.wait(Activity::Connect, 0, /*spin=*/false,
               [&] { return making->done.load(); });
  if (making->result != ncclSuccess)
    fail("NCCL failed when connecting the ranks for the ", name,
         " queue: ", making->error);
  handle = making->handle;
}

NcclCommunicator::NcclCommunicator(const NcclSetup &setup, const char *queue,
                                   const Members &members)
    : members(members), name(queue) {
  ncclUniqueId id = identifierOf(members, setup.exchange);
  int rank = members.index, ranks = members.count;
  make(setup, [=, config = configOf(setup)](ncclComm_t *made) mutable {
    return nccl().ncclCommInitRankConfig(made, ranks, id, rank, &config);
  });
}

NcclCommunicator::NcclCommunicator(const NcclSetup &setup, const char *queue,
                                   const Members &members,
                                   const NcclCommunicator &parent, bool lends)
    : members(members), name(queue) {
  ncclConfig_t config = configOf(setup);
  config.splitShare = lends ? 1 : 0;
  // No other set of members has the same first one.
  int color = members.first, rank = members.index;
  ncclComm_t from = parent;
  make(setup, [=](ncclComm_t *made) mutable {
    return nccl().ncclCommSplit(from, color, rank, made, &config);
  });
}

// When this rank fails the process is about to end, and the others do not come
// to what the library would do here.
NcclCommunicator::~NcclCommunicator() {
  if (handle && std::uncaught_exceptions() == 0)
    nccl().ncclCommDestroy(handle);
}

// ---- Memory

NcclAllocator::NcclAllocator(Exchange &exchange,
                             std::vector<ncclComm_t> communicators)
    : exchange(exchange), communicators(std::move(communicators)) {}

CUdeviceptr NcclAllocator::allocate(int64_t bytes) {
  void *memory = nullptr;
  if (nccl().ncclMemAlloc(&memory, static_cast<size_t>(bytes)) != ncclSuccess)
    return 0;
  Block block{deviceAddress(memory), {}};
  std::string error = registerBlock(block, bytes);
  // A buffer is registered by all ranks or by none: NCCL chooses by it how a
  // collective is done, and all must choose alike.
  std::vector<std::string> errors = exchange.allGather(error);
  bool failed = std::any_of(errors.begin(), errors.end(),
                            [](auto &text) { return !text.empty(); });
  if (failed)
    unregister(block);
  if (failed && !errors[0].empty() && !error.empty())
    printWarning(concat("NCCL could not register ", formatBytes(bytes), ": ",
                        error, "; its collectives will be slower"));
  blocks.push_back(std::move(block));
  return blocks.back().address;
}

std::string NcclAllocator::registerBlock(Block &block, int64_t bytes) {
  const NcclApi &api = nccl();
  void *memory = devicePointer(block.address);
  auto size = static_cast<size_t>(bytes);
  std::string error;
  for (ncclComm_t communicator : communicators) {
    Registration registration{communicator, nullptr, nullptr};
    // All ranks call it for every communicator, whatever came of the last.
    ncclResult_t result =
        api.ncclCommWindowRegister
            ? api.ncclCommWindowRegister(communicator, memory, size,
                                         &registration.window,
                                         NCCL_WIN_COLL_SYMMETRIC)
            : api.ncclCommRegister(communicator, memory, size,
                                   &registration.handle);
    // Where windows do not work, it gives none.
    if (result == ncclSuccess && !registration.window && !registration.handle)
      result = api.ncclCommRegister(communicator, memory, size,
                                    &registration.handle);
    if (result == ncclSuccess)
      block.registrations.push_back(registration);
    else if (error.empty())
      error = describe(result, communicator);
  }
  return error;
}

void NcclAllocator::unregister(Block &block) {
  for (const Registration &r : block.registrations) {
    if (r.window)
      nccl().ncclCommWindowDeregister(r.communicator, r.window);
    else if (r.handle)
      nccl().ncclCommDeregister(r.communicator, r.handle);
  }
  block.registrations.clear();
}

void NcclAllocator::release(CUdeviceptr address) {
  auto block = std::find_if(blocks.begin(), blocks.end(), [&](const Block &b) {
    return b.address == address;
  });
  if (block == blocks.end())
    return;
  unregister(*block);
  nccl().ncclMemFree(devicePointer(address));
  blocks.erase(block);
}

} // namespace shardonnx::rt::cuda
