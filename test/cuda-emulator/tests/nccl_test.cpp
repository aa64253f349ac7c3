// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The emulated NCCL: two ranks on threads of this process, and a rank in
// another process that dies.

#include "Fixture.h"
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <nccl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

using namespace shardonnx::emulator;

namespace {

/// What a rank's thread works with.
struct Rank {
  int rank;
  CUcontext context;
  CUstream stream;
  ncclComm_t comm;
  cudaStream_t cudaStream() const {
    return reinterpret_cast<cudaStream_t>(stream);
  }
};

void *pointer(CUdeviceptr address) { return reinterpret_cast<void *>(address); }

/// Runs both ranks at once, each on a device of its own.
void onTwoRanks(const std::function<void(Rank &)> &body) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  auto run = [&](int number) {
    Rank rank{number, nullptr, nullptr, nullptr};
    CHECK_CU(cuInit(0));
    CHECK_CU(cuDevicePrimaryCtxRetain(&rank.context, number));
    CHECK_CU(cuCtxSetCurrent(rank.context));
    CHECK_CU(cuStreamCreate(&rank.stream, CU_STREAM_NON_BLOCKING));
    ASSERT_EQ(ncclCommInitRank(&rank.comm, 2, id, number), ncclSuccess);
    body(rank);
    cuStreamSynchronize(rank.stream);
    ncclCommDestroy(rank.comm);
    cuStreamDestroy(rank.stream);
    cuDevicePrimaryCtxRelease(number);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

TEST(NcclTest, Collectives) {
  // Longer than a slot, so that it goes in pieces.
  constexpr size_t n = 700001;
  onTwoRanks([](Rank &r) {
    std::vector<float> mine(2 * n);
    for (size_t i = 0; i < 2 * n; ++i)
      mine[i] =
          static_cast<float>(i % 1000) + 0.25f * static_cast<float>(r.rank);
    Buffer<float> in(mine), sums(n), all(2 * n);
    ASSERT_EQ(ncclReduceScatter(pointer(in.address), pointer(sums.address), n,
                                ncclFloat32, ncclSum, r.comm, r.cudaStream()),
              ncclSuccess);
    ASSERT_EQ(ncclAllGather(pointer(sums.address), pointer(all.address), n,
                            ncclFloat32, r.comm, r.cudaStream()),
              ncclSuccess);
    // In place.
    ASSERT_EQ(ncclAllReduce(pointer(in.address), pointer(in.address), 2 * n,
                            ncclFloat32, ncclMax, r.comm, r.cudaStream()),
              ncclSuccess);
    CHECK_CU(cuStreamSynchronize(r.stream));
    std::vector<float> gathered = all.read(), largest = in.read();
    for (size_t i = 0; i < 2 * n; ++i) {
      ASSERT_EQ(gathered[i], 2 * static_cast<float>(i % 1000) + 0.25f) << i;
      ASSERT_EQ(largest[i], static_cast<float>(i % 1000) + 0.25f) << i;
    }
  });
}

TEST(NcclTest, SendAndReceive) {
  constexpr size_t n = 50000;
  onTwoRanks([](Rank &r) {
    std::vector<int32_t> mine(n, 7 + r.rank);
    Buffer<int32_t> out(mine), in(n);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclSend(pointer(out.address), n, ncclInt32, 1 - r.rank, r.comm,
                       r.cudaStream()),
              ncclSuccess);
    ASSERT_EQ(ncclRecv(pointer(in.address), n, ncclInt32, 1 - r.rank, r.comm,
                       r.cudaStream()),
              ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    CHECK_CU(cuStreamSynchronize(r.stream));
    for (int32_t value : in.read())
      ASSERT_EQ(value, 8 - r.rank);
  });
}

TEST(NcclTest, HalfPrecisionIsSummedInSingle) {
  onTwoRanks([](Rank &r) {
    // 1 + 1/256 is not a bf16, so each rank's value is exact, the sum rounded.
    uint16_t one = 0x3f80, small = 0x3b80; // 1 and 2^-8
    Buffer<uint16_t> value(std::vector<uint16_t>{r.rank ? small : one});
    ASSERT_EQ(ncclAllReduce(pointer(value.address), pointer(value.address), 1,
                            ncclBfloat16, ncclSum, r.comm, r.cudaStream()),
              ncclSuccess);
    CHECK_CU(cuStreamSynchronize(r.stream));
    EXPECT_EQ(value.read()[0], 0x3f80); // the tie goes to even
  });
}

TEST(NcclTest, CapturedInGraph) {
  onTwoRanks([](Rank &r) {
    Buffer<float> value(std::vector<float>{1.0f + static_cast<float>(r.rank)});
    CHECK_CU(
        cuStreamBeginCapture(r.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    ASSERT_EQ(ncclAllReduce(pointer(value.address), pointer(value.address), 1,
                            ncclFloat32, ncclSum, r.comm, r.cudaStream()),
              ncclSuccess);
    CUgraph graph;
    CUgraphExec executable;
    CHECK_CU(cuStreamEndCapture(r.stream, &graph));
    CHECK_CU(cuGraphInstantiate(&executable, graph, 0));
    CHECK_CU(cuGraphDestroy(graph));
    for (int round = 0; round < 3; ++round)
      CHECK_CU(cuGraphLaunch(executable, r.stream));
    CHECK_CU(cuStreamSynchronize(r.stream));
    EXPECT_EQ(value.read()[0], 12.0f);
    CHECK_CU(cuGraphExecDestroy(executable));
  });
}

TEST(NcclTest, SplitAndWindows) {
  onTwoRanks([](Rank &r) {
    ncclComm_t half;
    ASSERT_EQ(ncclCommSplit(r.comm, r.rank, 0, &half, nullptr), ncclSuccess);
    int size = 0;
    ASSERT_EQ(ncclCommCount(half, &size), ncclSuccess);
    EXPECT_EQ(size, 1);
    ncclCommDestroy(half);
    void *memory;
    ncclWindow_t window;
    ASSERT_EQ(ncclMemAlloc(&memory, 8192), ncclSuccess);
    ASSERT_EQ(ncclCommWindowRegister(r.comm, memory, 8192, &window,
                                     NCCL_WIN_COLL_SYMMETRIC),
              ncclSuccess);
    ASSERT_EQ(ncclCommWindowDeregister(r.comm, window), ncclSuccess);
    ASSERT_EQ(ncclMemFree(memory), ncclSuccess);
  });
}

/// A collective of the first communicator that the other rank never comes to,
/// and a second communicator.
void withOneThatHangs(const std::function<void(Rank &, ncclComm_t)> &end) {
  onTwoRanks([&](Rank &r) {
    ncclComm_t other = nullptr;
    ASSERT_EQ(ncclCommSplit(r.comm, 0, r.rank, &other, nullptr), ncclSuccess);
    if (r.rank == 0) {
      Buffer<float> value(1);
      ASSERT_EQ(ncclAllReduce(pointer(value.address), pointer(value.address), 1,
                              ncclFloat32, ncclSum, r.comm, r.cudaStream()),
                ncclSuccess);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      end(r, other);
    } else {
      ncclCommAbort(other);
    }
  });
}

TEST(NcclTest, CommunicatorsAreAbortedTogether) {
  for (bool together : {true, false}) {
    testing::internal::CaptureStderr();
    withOneThatHangs([together](Rank &r, ncclComm_t other) {
      if (together)
        ncclGroupStart();
      EXPECT_EQ(ncclCommAbort(other), ncclSuccess);
      EXPECT_EQ(ncclCommAbort(std::exchange(r.comm, nullptr)), ncclSuccess);
      if (together) {
        EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
      }
    });
    std::string text = testing::internal::GetCapturedStderr();
    EXPECT_EQ(text.find("in one group") == std::string::npos, together) << text;
  }
}

TEST(NcclTest, NobodyAsksWhatIsAborted) {
  testing::internal::CaptureStderr();
  onTwoRanks([](Rank &r) {
    ncclComm_t gone = std::exchange(r.comm, nullptr);
    ncclCommAbort(gone);
    ncclResult_t error;
    EXPECT_EQ(ncclCommGetAsyncError(gone, &error), ncclInvalidArgument);
  });
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("that is gone"), std::string::npos) << text;
}

TEST(NcclTest, SharedResourcesOnTwoStreams) {
  for (int share : {0, 1}) {
    testing::internal::CaptureStderr();
    onTwoRanks([share](Rank &r) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.splitShare = share;
      ncclComm_t parent, child;
      ASSERT_EQ(ncclCommSplit(r.comm, 0, r.rank, &parent, &config),
                ncclSuccess);
      ASSERT_EQ(ncclCommSplit(parent, 0, r.rank, &child, nullptr), ncclSuccess);
      CUstream second;
      CHECK_CU(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
      Buffer<float> one(1), two(1);
      auto sum = [](const Buffer<float> &value, ncclComm_t comm, CUstream on) {
        EXPECT_EQ(ncclAllReduce(pointer(value.address), pointer(value.address),
                                1, ncclFloat32, ncclSum, comm,
                                reinterpret_cast<cudaStream_t>(on)),
                  ncclSuccess);
      };
      sum(one, parent, r.stream);
      sum(two, child, second);
      CHECK_CU(cuStreamSynchronize(r.stream));
      CHECK_CU(cuStreamSynchronize(second));
      CHECK_CU(cuStreamDestroy(second));
      ncclCommDestroy(child);
      ncclCommDestroy(parent);
    });
    std::string text = testing::internal::GetCapturedStderr();
    EXPECT_EQ(text.find("share their resources") != std::string::npos,
              share == 1)
        << text;
  }
}

TEST(NcclTest, MismatchIsReported) {
  testing::internal::CaptureStderr();
  onTwoRanks([](Rank &r) {
    Buffer<float> in(64), out(128);
    ASSERT_EQ(ncclAllGather(pointer(in.address), pointer(out.address),
                            r.rank ? 32 : 64, ncclFloat32, r.comm,
                            r.cudaStream()),
              ncclSuccess);
    EXPECT_EQ(cuStreamSynchronize(r.stream), CUDA_ERROR_LAUNCH_FAILED);
    ncclResult_t error;
    ASSERT_EQ(ncclCommGetAsyncError(r.comm, &error), ncclSuccess);
    EXPECT_EQ(error, ncclInvalidUsage);
  });
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("ncclAllGather of 32 elements"), std::string::npos)
      << text;
  EXPECT_NE(text.find("ncclAllGather of 64 elements"), std::string::npos)
      << text;
}

TEST(NcclTest, OverlapOutOfPlace) {
  testing::internal::CaptureStderr();
  onTwoRanks([](Rank &r) {
    Buffer<float> buffer(128);
    // In place is at rank * count, this is at 1.
    EXPECT_EQ(ncclAllGather(pointer(buffer.address + 4),
                            pointer(buffer.address), 16, ncclFloat32, r.comm,
                            r.cudaStream()),
              ncclInvalidArgument);
  });
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("overlap"), std::string::npos) << text;
}

/// The other process of RankDies: joins as rank 1 and exits.
TEST(NcclTest, DISABLED_JoinAndDie) {
  const char *text = std::getenv("SHARDONNX_TEST_UNIQUE_ID");
  ASSERT_NE(text, nullptr);
  ncclUniqueId id;
  std::memset(&id, 0, sizeof id);
  uint64_t identity = std::strtoull(text, nullptr, 16);
  std::memcpy(id.internal, &identity, sizeof identity);
  CUcontext context;
  CHECK_CU(cuInit(0));
  CHECK_CU(cuDevicePrimaryCtxRetain(&context, 1));
  CHECK_CU(cuCtxSetCurrent(context));
  ncclComm_t comm;
  ASSERT_EQ(ncclCommInitRank(&comm, 2, id, 1), ncclSuccess);
  std::_Exit(0);
}

TEST(NcclTest, RankDies) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  uint64_t identity;
  std::memcpy(&identity, id.internal, sizeof identity);
  char variable[64], filter[] = "--gtest_filter=NcclTest.DISABLED_JoinAndDie",
                     also[] = "--gtest_also_run_disabled_tests",
                     self[] = "/proc/self/exe";
  std::snprintf(variable, sizeof variable, "SHARDONNX_TEST_UNIQUE_ID=%llx",
                static_cast<unsigned long long>(identity));
  char *arguments[] = {self, filter, also, nullptr};
  char *environment[] = {variable, nullptr};
  pid_t child;
  ASSERT_EQ(posix_spawn(&child, self, nullptr, nullptr, arguments, environment),
            0);
  CUcontext context;
  CUstream stream;
  CHECK_CU(cuInit(0));
  CHECK_CU(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_CU(cuCtxSetCurrent(context));
  CHECK_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm;
  ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
  ncclResult_t error = ncclInProgress;
  auto waitWhile = [&](ncclResult_t state) {
    for (int tries = 0; tries < 1000 && error == state; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      ncclCommGetAsyncError(comm, &error);
    }
  };
  waitWhile(ncclInProgress);
  ASSERT_EQ(error, ncclSuccess);
  testing::internal::CaptureStderr();
  {
    Buffer<float> value(4);
    ASSERT_EQ(ncclAllReduce(pointer(value.address), pointer(value.address), 4,
                            ncclFloat32, ncclSum, comm,
                            reinterpret_cast<cudaStream_t>(stream)),
              ncclSuccess);
    waitWhile(ncclSuccess);
    EXPECT_EQ(error, ncclRemoteError);
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    ASSERT_EQ(ncclCommAbort(comm), ncclSuccess);
    CHECK_CU(cuStreamSynchronize(stream));
  }
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("rank 1 of the communicator is gone"), std::string::npos)
      << text;
  int status;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  cuStreamDestroy(stream);
  cuDevicePrimaryCtxRelease(0);
}

} // namespace
