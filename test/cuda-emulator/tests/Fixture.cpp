// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A context on the emulated device and short ways to use it.

#include "Fixture.h"
#include <cstdlib>
#include <fstream>
#include <sstream>

using namespace shardonnx::emulator;

/// Before the first cuInit: some tests have two ranks.
static const bool twoDevices =
    setenv("SHARDONNX_EMULATOR_DEVICES", "2", 1) == 0;

std::string shardonnx::emulator::readText(const std::string &path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void DeviceTest::SetUp() {
  ASSERT_TRUE(twoDevices);
  CHECK_CU(cuInit(0));
  CHECK_CU(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_CU(cuCtxSetCurrent(context));
  CHECK_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

void DeviceTest::TearDown() {
  cuStreamDestroy(stream);
  if (module)
    cuModuleUnload(module);
  cuCtxSetCurrent(nullptr);
  cuDevicePrimaryCtxRelease(0);
}

CUfunction DeviceTest::function(const char *name) {
  if (!module) {
    std::string text = readText(kernelsPath());
    EXPECT_EQ(cuModuleLoadData(&module, text.c_str()), CUDA_SUCCESS);
  }
  CUfunction found = nullptr;
  if (module) {
    EXPECT_EQ(cuModuleGetFunction(&found, module, name), CUDA_SUCCESS) << name;
  }
  return found;
}

std::string DeviceTest::complaint(const std::function<CUresult()> &run,
                                  CUresult expected) {
  testing::internal::CaptureStderr();
  CUresult result = run();
  if (result == CUDA_SUCCESS)
    result = cuStreamSynchronize(stream);
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(result, expected) << text;
  return text;
}
