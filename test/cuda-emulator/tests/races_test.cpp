// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Races in global memory, which are only looked for in processes that ask: each
// case runs in one of its own.

#include "Fixture.h"
#include <cstdlib>

using namespace shardonnx::emulator;

namespace {

class RaceTest : public DeviceTest {
protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    setenv("SHARDONNX_EMULATOR_RACECHECK", "1", 1);
    DeviceTest::SetUp();
    CHECK_CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  }
  void TearDown() override {
    unsetenv("SHARDONNX_EMULATOR_RACECHECK");
    cuStreamDestroy(other);
    cuEventDestroy(event);
    DeviceTest::TearDown();
  }
  CUresult addOne(CUstream on, CUdeviceptr from, CUdeviceptr to) {
    int n = 256;
    void *params[] = {&from, &to, &n};
    return cuLaunchKernel(function("addOne"), 2, 1, 1, 128, 1, 1, 0, on, params,
                          nullptr);
  }
  /// Two kernels on two streams that share a buffer.
  void pair(bool ordered) {
    cuEventRecord(event, stream);
    cuStreamWaitEvent(other, event, 0);
    addOne(stream, a, b);
    if (ordered) {
      cuEventRecord(event, stream);
      cuStreamWaitEvent(other, event, 0);
    }
    addOne(other, b, c);
    cuEventRecord(event, other);
    cuStreamWaitEvent(stream, event, 0);
  }
  void allocate() {
    for (CUdeviceptr *buffer : {&a, &b, &c})
      ASSERT_EQ(cuMemAlloc(buffer, 1024), CUDA_SUCCESS);
    function("addOne");
  }
  [[noreturn]] void finish() {
    CUresult first = cuStreamSynchronize(stream);
    CUresult second = cuStreamSynchronize(other);
    // Uploads are on neither stream: one that is made last finds the race.
    CUresult all = cuCtxSynchronize();
    std::fprintf(stderr, first || second || all ? "failed\n" : "no race\n");
    std::_Exit(0);
  }
  void onStreams(bool ordered) {
    allocate();
    pair(ordered);
    finish();
  }
  void inGraph(bool ordered) {
    allocate();
    CUgraph graph;
    CUgraphExec executable;
    ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    pair(ordered);
    ASSERT_EQ(cuStreamEndCapture(stream, &graph), 0);
    ASSERT_EQ(cuGraphInstantiate(&executable, graph, 0), 0);
    for (int launch = 0; launch < 2; ++launch)
      cuGraphLaunch(executable, stream);
    finish();
  }
  /// A copy that does not wait for the kernel on a stream.
  void hostCopy(bool ordered) {
    allocate();
    addOne(stream, a, b);
    if (ordered)
      cuStreamSynchronize(stream);
    std::vector<char> host(1024);
    CUresult result = cuMemcpyDtoH(host.data(), b, 1024);
    if (result)
      std::fprintf(stderr, "failed\n");
    finish();
  }
  /// What has returned need not have reached the device.
  void uploads(bool ordered) {
    allocate();
    std::vector<char> host(1024);
    cuMemcpyHtoD(a, host.data(), 1024);
    if (ordered)
      cuCtxSynchronize();
    addOne(other, a, b);
    finish();
  }
  void betweenBlocks(unsigned blocks) {
    allocate();
    launch(function("blockRace"), blocks, 1, 0, a);
    finish();
  }

  CUstream other = nullptr;
  CUevent event = nullptr;
  CUdeviceptr a = 0, b = 0, c = 0;
};

const auto exited = testing::ExitedWithCode(0);

TEST_F(RaceTest, BetweenStreams) {
  EXPECT_EXIT(onStreams(true), exited, "no race");
  EXPECT_EXIT(onStreams(false), exited, "nothing orders it and(.|\n)*failed");
}

TEST_F(RaceTest, BetweenNodesOfAGraph) {
  EXPECT_EXIT(inGraph(true), exited, "no race");
  EXPECT_EXIT(inGraph(false), exited, "nothing orders it and(.|\n)*failed");
}

TEST_F(RaceTest, BetweenHostAndStream) {
  EXPECT_EXIT(hostCopy(true), exited, "no race");
  EXPECT_EXIT(
      {
        // The kernel may not have begun when the copy is made; then it fails.
        hostCopy(false);
      },
      exited, "nothing orders it and(.|\n)*failed");
}

TEST_F(RaceTest, BetweenAnUploadAndAStreamThatIsNotOrderedWithIt) {
  EXPECT_EXIT(uploads(true), exited, "no race");
  EXPECT_EXIT(uploads(false), exited, "nothing orders it and(.|\n)*failed");
}

TEST_F(RaceTest, BetweenBlocks) {
  EXPECT_EXIT(betweenBlocks(1), exited, "no race");
  EXPECT_EXIT(betweenBlocks(8), exited, "another block of this kernel");
}

} // namespace
