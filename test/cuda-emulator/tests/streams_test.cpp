// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Streams, events, capture and graphs.

#include "Fixture.h"
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

using namespace shardonnx::emulator;

namespace {

/// Holds a stream until the flag is set.
void waitAtGate(void *open) {
  while (!*static_cast<std::atomic<bool> *>(open))
    std::this_thread::yield();
}

class StreamTest : public DeviceTest {
protected:
  void SetUp() override {
    DeviceTest::SetUp();
    CHECK_CU(cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, -1));
    CHECK_CU(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    CHECK_CU(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
  }
  void TearDown() override {
    cuStreamDestroy(other);
    cuEventDestroy(fork);
    cuEventDestroy(join);
    DeviceTest::TearDown();
  }
  CUresult addOne(CUstream on, CUdeviceptr from, CUdeviceptr to) {
    CUfunction kernel = function("addOne");
    int n = 256;
    void *params[] = {&from, &to, &n};
    return cuLaunchKernel(kernel, 2, 1, 1, 128, 1, 1, 0, on, params, nullptr);
  }
  /// a -> b on one stream, b -> c on the other, c -> d on the first; with or
  /// without the event that orders the first two.
  void chain(bool ordered) {
    CHECK_CU(cuEventRecord(fork, stream));
    CHECK_CU(cuStreamWaitEvent(other, fork, 0));
    CHECK_CU(addOne(stream, a.address, b.address));
    if (ordered) {
      CHECK_CU(cuEventRecord(fork, stream));
      CHECK_CU(cuStreamWaitEvent(other, fork, 0));
    }
    CHECK_CU(addOne(other, b.address, c.address));
    CHECK_CU(cuEventRecord(join, other));
    CHECK_CU(cuStreamWaitEvent(stream, join, 0));
    CHECK_CU(addOne(stream, c.address, d.address));
  }
  void expectAll(const Buffer<float> &buffer, float expected) {
    for (float value : buffer.read())
      ASSERT_EQ(value, expected);
  }
  struct Lazy : Buffer<float> {
    Lazy() : Buffer<float>(256) {}
  };
  void makeBuffers() {
    std::vector<float> zeros(256);
    CHECK_CU(cuMemcpyHtoD(a.address, zeros.data(), 1024));
    CHECK_CU(cuMemsetD8(b.address, 0, 1024));
    CHECK_CU(cuMemsetD8(c.address, 0, 1024));
    CHECK_CU(cuCtxSynchronize());
  }

  CUstream other = nullptr;
  CUevent fork = nullptr, join = nullptr;
  /// The context must be there before the buffers.
  struct Context {
    Context() {
      CUcontext context;
      cuInit(0);
      cuDevicePrimaryCtxRetain(&context, 0);
      cuCtxSetCurrent(context);
    }
    ~Context() { cuDevicePrimaryCtxRelease(0); }
  } early;
  Lazy a, b, c, d;
};

TEST_F(StreamTest, EventsOrderStreams) {
  makeBuffers();
  chain(true);
  CHECK_CU(cuStreamSynchronize(stream));
  expectAll(d, 3);
}

TEST_F(StreamTest, QueryAndElapsed) {
  CUevent start, end;
  CHECK_CU(cuEventCreate(&start, 0));
  CHECK_CU(cuEventCreate(&end, 0));
  CHECK_CU(cuEventRecord(start, stream));
  std::atomic<bool> open{false};
  CHECK_CU(cuLaunchHostFunc(stream, waitAtGate, &open));
  CHECK_CU(cuEventRecord(end, stream));
  EXPECT_EQ(cuEventQuery(end), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  CHECK_CU(cuEventSynchronize(start)); // however busy the machine is
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  open = true;
  CHECK_CU(cuEventSynchronize(end));
  CHECK_CU(cuEventQuery(end));
  float milliseconds = 0;
  CHECK_CU(cuEventElapsedTime(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 29.0f);
  CHECK_CU(cuEventDestroy(start));
  CHECK_CU(cuEventDestroy(end));
}

TEST_F(StreamTest, CopiesReadHostMemoryWhenTheyRun) {
  std::vector<float> host(256, 1.0f);
  std::atomic<bool> open{false};
  CHECK_CU(cuLaunchHostFunc(stream, waitAtGate, &open));
  CHECK_CU(cuMemcpyHtoDAsync(a.address, host.data(), 1024, stream));
  host.assign(256, 2.0f);
  open = true;
  CHECK_CU(cuStreamSynchronize(stream));
  expectAll(a, 2);
}

TEST_F(StreamTest, GraphRunsWhatWasCaptured) {
  makeBuffers();
  function("addOne");
  CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  chain(true);
  CUstreamCaptureStatus status;
  CHECK_CU(cuStreamIsCapturing(other, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUgraph graph;
  CHECK_CU(cuStreamEndCapture(stream, &graph));
  CHECK_CU(cuStreamIsCapturing(other, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  size_t nodes;
  CHECK_CU(cuGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 3u);
  CUgraphExec executable;
  CHECK_CU(cuGraphInstantiate(&executable, graph,
                              CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
  CHECK_CU(cuGraphDestroy(graph));
  CHECK_CU(cuGraphUpload(executable, stream));
  for (int step = 1; step <= 3; ++step) {
    CHECK_CU(cuGraphLaunch(executable, stream));
    CHECK_CU(cuMemcpyDtoDAsync(a.address, d.address, 1024, stream));
  }
  CHECK_CU(cuStreamSynchronize(stream));
  expectAll(d, 9);
  CHECK_CU(cuGraphExecDestroy(executable));
}

// One of the two streams has a higher priority, which the graph must keep.
TEST_F(StreamTest, GraphsLosePrioritiesUnlessAsked) {
  makeBuffers();
  function("addOne");
  CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  chain(true);
  CUgraph graph;
  CHECK_CU(cuStreamEndCapture(stream, &graph));
  CUgraphExec executable;
  std::string text =
      complaint([&] { return cuGraphInstantiate(&executable, graph, 0); },
                CUDA_ERROR_INVALID_VALUE);
  EXPECT_NE(text.find("USE_NODE_PRIORITY"), std::string::npos) << text;
  CHECK_CU(cuGraphInstantiate(&executable, graph,
                              CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
  CHECK_CU(cuGraphDestroy(graph));
  CHECK_CU(cuGraphExecDestroy(executable));
}

TEST_F(StreamTest, WordsForTheHostAreWrittenAndNotCopied) {
  void *memory = nullptr;
  CHECK_CU(cuMemHostAlloc(&memory, 64, 0));
  auto *word = static_cast<volatile uint32_t *>(memory);
  auto address = reinterpret_cast<CUdeviceptr>(memory);
  *word = 0;
  CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  std::string text;
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuMemcpyDtoHAsync(memory, a.address, 4, stream),
            CUDA_ERROR_NOT_SUPPORTED);
  text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("cuStreamWriteValue"), std::string::npos) << text;
  CHECK_CU(cuStreamWriteValue32(stream, address, 17, 0));
  CUgraph graph;
  CUgraphExec executable;
  CHECK_CU(cuStreamEndCapture(stream, &graph));
  CHECK_CU(cuGraphInstantiate(&executable, graph, 0));
  CHECK_CU(cuGraphDestroy(graph));
  EXPECT_EQ(*word, 0u);
  CHECK_CU(cuGraphLaunch(executable, stream));
  CHECK_CU(cuStreamSynchronize(stream));
  EXPECT_EQ(*word, 17u);
  CHECK_CU(cuGraphExecDestroy(executable));
  complaint([&] { return cuStreamWriteValue32(stream, address + 2, 1, 0); },
            CUDA_ERROR_ILLEGAL_ADDRESS);
  cuMemFreeHost(memory);
}

TEST_F(StreamTest, UnjoinedCapture) {
  makeBuffers();
  function("addOne");
  CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK_CU(cuEventRecord(fork, stream));
  CHECK_CU(cuStreamWaitEvent(other, fork, 0));
  CHECK_CU(addOne(other, a.address, b.address));
  CUgraph graph;
  std::string text =
      complaint([&] { return cuStreamEndCapture(stream, &graph); },
                CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_NE(text.find("kernel addOne"), std::string::npos) << text;
}

TEST_F(StreamTest, AllocationWhileCapturing) {
  CUdeviceptr address;
  CUgraph graph;
  CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuMemAlloc(&address, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuStreamEndCapture(stream, &graph),
            CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  testing::internal::GetCapturedStderr();
  // A relaxed capture leaves the choice to the program.
  CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK_CU(cuMemAlloc(&address, 64));
  CHECK_CU(cuStreamEndCapture(stream, &graph));
  CHECK_CU(cuGraphDestroy(graph));
  CHECK_CU(cuMemFree(address));
}

TEST_F(StreamTest, WaitsWhileCapturing) {
  CUgraph graph;
  testing::internal::CaptureStderr();
  CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuStreamEndCapture(stream, &graph),
            CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  // An event of the time before must not be waited for.
  CHECK_CU(cuEventRecord(fork, other));
  CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(cuStreamWaitEvent(stream, fork, 0),
            CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  EXPECT_EQ(cuStreamEndCapture(stream, &graph),
            CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  testing::internal::GetCapturedStderr();
}

/// Runs chain() many times under SHUFFLE, which a new process needs; exits with
/// 0 if all results are right.
class ShuffleTest : public StreamTest {
protected:
  void runShuffled(bool ordered, bool graph) {
    function("addOne");
    CUgraphExec executable = nullptr;
    if (graph) {
      CUgraph captured;
      ASSERT_EQ(
          cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), 0);
      chain(ordered);
      ASSERT_EQ(cuStreamEndCapture(stream, &captured), 0);
      ASSERT_EQ(
          cuGraphInstantiate(&executable, captured,
                             CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY),
          0);
    }
    bool right = true;
    for (int round = 0; round < 40; ++round) {
      makeBuffers();
      if (graph)
        cuGraphLaunch(executable, stream);
      else
        chain(ordered);
      cuStreamSynchronize(stream);
      for (float value : d.read())
        right = right && value == 3;
    }
    std::fprintf(stderr, right ? "all right\n" : "some wrong\n");
    std::_Exit(0);
  }
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    setenv("SHARDONNX_EMULATOR_SHUFFLE", "7", 1);
    StreamTest::SetUp();
  }
  void TearDown() override {
    unsetenv("SHARDONNX_EMULATOR_SHUFFLE");
    StreamTest::TearDown();
  }
};

TEST_F(ShuffleTest, MissingDependencyBetweenStreamsShows) {
  EXPECT_EXIT(runShuffled(true, false), testing::ExitedWithCode(0),
              "all right");
  EXPECT_EXIT(runShuffled(false, false), testing::ExitedWithCode(0),
              "some wrong");
}

TEST_F(ShuffleTest, MissingDependencyInGraphShows) {
  EXPECT_EXIT(runShuffled(true, true), testing::ExitedWithCode(0), "all right");
  EXPECT_EXIT(runShuffled(false, true), testing::ExitedWithCode(0),
              "some wrong");
}

} // namespace
