// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every mistake the emulator looks for, made on purpose.

#include "Fixture.h"
#include <cmath>

using namespace shardonnx::emulator;

namespace {

class CheckTest : public DeviceTest {
protected:
  void expectFault(const char *kernel, unsigned threads, CUresult code,
                   const char *words, unsigned shared = 0) {
    Buffer<float> out(64);
    std::string text = complaint(
        [&] {
          return launch(function(kernel), 1, threads, shared, out.address);
        },
        code);
    EXPECT_NE(text.find(words), std::string::npos) << text;
    EXPECT_NE(text.find(kernel), std::string::npos) << text;
    EXPECT_NE(text.find("PTX line"), std::string::npos) << text;
    // The error stays.
    CUdeviceptr address;
    EXPECT_EQ(cuMemAlloc(&address, 64), code);
  }
};

TEST_F(CheckTest, OutOfBounds) {
  Buffer<float> out(64), neighbour(64);
  std::string text = complaint(
      [&] { return launch(function("beyondEnd"), 1, 32, 0, out.address, 33); },
      CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_NE(text.find("writes 4 bytes"), std::string::npos) << text;
  EXPECT_NE(text.find("256 bytes after the start of an allocation of 256"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("thread (31,0,0)"), std::string::npos) << text;
}

TEST_F(CheckTest, HostPointerOnDevice) {
  std::vector<float> host(64);
  CUdeviceptr wrong = reinterpret_cast<CUdeviceptr>(host.data());
  std::string text = complaint(
      [&] { return launch(function("beyondEnd"), 1, 32, 0, wrong, 0); },
      CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_NE(text.find("host pointer"), std::string::npos) << text;
}

TEST_F(CheckTest, FreedMemory) {
  CUdeviceptr freed;
  {
    Buffer<float> gone(64);
    freed = gone.address;
  }
  complaint([&] { return launch(function("beyondEnd"), 1, 32, 0, freed, 0); },
            CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(CheckTest, Misaligned) {
  expectFault("misaligned", 1, CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned");
}
TEST_F(CheckTest, SharedOutOfRange) {
  expectFault("beyondShared", 32, CUDA_ERROR_ILLEGAL_ADDRESS,
              "shared memory out of range", 128);
}
TEST_F(CheckTest, SharedRace) {
  expectFault("sharedRace", 64, CUDA_ERROR_LAUNCH_FAILED,
              "race in shared memory");
}
TEST_F(CheckTest, BarrierAfterReturn) {
  expectFault("barrierAfterReturn", 32, CUDA_ERROR_LAUNCH_FAILED,
              "barrier after this thread of the warp returned");
}
TEST_F(CheckTest, DivergentBarrier) {
  expectFault("divergentBarrier", 32, CUDA_ERROR_LAUNCH_FAILED,
              "barrier in divergent code");
}
TEST_F(CheckTest, MissingWarp) {
  expectFault("missingWarp", 64, CUDA_ERROR_LAUNCH_FAILED, "waits for ever");
}
TEST_F(CheckTest, ShuffleFromInactiveLane) {
  expectFault("shuffleInactive", 32, CUDA_ERROR_LAUNCH_FAILED,
              "names the inactive lane");
}

TEST_F(CheckTest, ProgrammaticLaunches) {
  Buffer<float> out(64);
  CHECK_CU(launch(function("writesEarly"), 1, 32, 0, out.address));
  CHECK_CU(launchProgrammatic(function("waitsFirst"), out.address));
  CHECK_CU(cuStreamSynchronize(stream));
  EXPECT_EQ(out.read()[31], 2);
  std::string text = complaint(
      [&] { return launchProgrammatic(function("writesEarly"), out.address); },
      CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_NE(text.find("writes global memory before griddepcontrol.wait"),
            std::string::npos)
      << text;
}

TEST_F(CheckTest, ProgrammaticLaunchThatNeverWaits) {
  Buffer<float> out(64);
  std::string text = complaint(
      [&] { return launchProgrammatic(function("neverWaits"), out.address); },
      CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_NE(text.find("returns without griddepcontrol.wait"), std::string::npos)
      << text;
}

TEST_F(CheckTest, ProgrammaticLaunchBehindNoKernel) {
  Buffer<float> out(64);
  CUgraph graph = nullptr;
  CUfunction kernel = function("waitsFirst");
  CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK_CU(launch(kernel, 1, 32, 0, out.address));
  CHECK_CU(launchProgrammatic(kernel, out.address));
  CHECK_CU(cuMemsetD32Async(out.address, 0, 64, stream));
  std::string text =
      complaint([&] { return launchProgrammatic(kernel, out.address); },
                CUDA_ERROR_INVALID_VALUE);
  EXPECT_NE(text.find("not behind one kernel alone"), std::string::npos)
      << text;
  CHECK_CU(cuStreamEndCapture(stream, &graph));
  CHECK_CU(cuGraphDestroy(graph));
}

TEST_F(CheckTest, TooMuchSharedMemory) {
  Buffer<float> out(64);
  CUfunction kernel = function("beyondShared");
  std::string text =
      complaint([&] { return launch(kernel, 1, 32, 49 << 10, out.address); },
                CUDA_ERROR_INVALID_VALUE);
  EXPECT_NE(text.find("dynamic shared memory"), std::string::npos) << text;
  CHECK_CU(cuFuncSetAttribute(
      kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10));
  CHECK_CU(cuStreamSynchronize(stream));
}

TEST_F(CheckTest, FreshMemoryIsNaN) {
  Buffer<float> fresh(16);
  for (float value : fresh.read())
    EXPECT_TRUE(std::isnan(value));
}

TEST_F(CheckTest, CopyBeyondEnd) {
  Buffer<float> buffer(16);
  std::vector<float> host(32);
  std::string text =
      complaint([&] { return cuMemcpyHtoD(buffer.address, host.data(), 128); },
                CUDA_ERROR_INVALID_VALUE);
  EXPECT_NE(text.find("allocation of 64 bytes"), std::string::npos) << text;
}

TEST_F(CheckTest, UnknownInstruction) {
  const char *ptx = ".version 9.0\n.target sm_90\n.address_size 64\n"
                    ".entry k()\n{\n.reg .b32 %r<2>;\n"
                    "frobnicate.b32 %r1, 5;\nret;\n}\n";
  CUmodule loaded;
  std::string text = complaint([&] { return cuModuleLoadData(&loaded, ptx); },
                               CUDA_ERROR_INVALID_PTX);
  EXPECT_NE(text.find("line 7"), std::string::npos) << text;
  EXPECT_NE(text.find("frobnicate"), std::string::npos) << text;
}

TEST_F(CheckTest, DefaultStream) {
  Buffer<float> out(64);
  complaint([&] { return cuMemsetD32Async(out.address, 0, 64, nullptr); },
            CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(CheckTest, HostFunctionMayNotCallTheDriver) {
  static CUresult inside;
  std::string text = complaint(
      [&] {
        return cuLaunchHostFunc(
            stream, [](void *) { inside = cuCtxSynchronize(); }, nullptr);
      },
      CUDA_SUCCESS);
  EXPECT_EQ(inside, CUDA_ERROR_NOT_PERMITTED);
}

} // namespace
