// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A context on the emulated device and short ways to use it.

#ifndef SHARDONNX_TEST_CUDA_EMULATOR_FIXTURE_H
#define SHARDONNX_TEST_CUDA_EMULATOR_FIXTURE_H

#include "driver/Hooks.h"
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

#define CHECK_CU(call) ASSERT_EQ((call), CUDA_SUCCESS)

namespace shardonnx::emulator {

/// The PTX file of kernels.cu.
std::string readText(const std::string &path);

/// Memory of the device that holds a vector.
template <class T> class Buffer {
public:
  explicit Buffer(size_t count) : count(count) {
    EXPECT_EQ(cuMemAlloc(&address, count * sizeof(T)), CUDA_SUCCESS);
  }
  explicit Buffer(const std::vector<T> &values) : Buffer(values.size()) {
    EXPECT_EQ(cuMemcpyHtoD(address, values.data(), count * sizeof(T)),
              CUDA_SUCCESS);
    // Which is ordered with no stream of the tests'.
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }
  Buffer(const Buffer &) = delete;
  ~Buffer() { cuMemFree(address); }
  std::vector<T> read() const {
    std::vector<T> values(count);
    EXPECT_EQ(cuMemcpyDtoH(values.data(), address, count * sizeof(T)),
              CUDA_SUCCESS);
    return values;
  }

  CUdeviceptr address = 0;
  size_t count;
};

class DeviceTest : public testing::Test {
protected:
  void SetUp() override;
  void TearDown() override;
  virtual std::string kernelsPath() const { return SHARDONNX_EMULATOR_KERNELS; }

  CUfunction function(const char *name);
  /// Launches on the fixture's stream.
  template <class... Args>
  CUresult launch(CUfunction kernel, unsigned grid, unsigned block,
                  unsigned shared, Args... args) {
    void *params[] = {&args...};
    return cuLaunchKernel(kernel, grid, 1, 1, block, 1, 1, shared, stream,
                          params, nullptr);
  }
  /// It may begin before the kernel ahead of it has ended.
  CUresult launchProgrammatic(CUfunction kernel, CUdeviceptr out) {
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config = {1, 1, 1, 32, 1, 1, 0, stream, &attribute, 1};
    void *params[] = {&out};
    return cuLaunchKernelEx(&config, kernel, params, nullptr);
  }
  /// Runs it and returns what the emulator says on stderr.
  std::string complaint(const std::function<CUresult()> &run,
                        CUresult expected);

  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUstream stream = nullptr;
};

inline std::vector<float> randomFloats(size_t count, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float &value : values)
    value = normal(generator);
  return values;
}

} // namespace shardonnx::emulator

#endif
