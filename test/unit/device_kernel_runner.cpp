// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels for a GPU, their PTX run by the CUDA driver that the program is
// linked with: in the tests the emulated one.

#include "kernel_harness.h"
#include "shardonnx/Codegen/GPU/LowerDeviceKernels.h"
#include "shardonnx/Object/DeviceImages.h"
#include <cuda.h>
#include <gtest/gtest.h>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::test;

namespace {

void check(CUresult result, const char *what) {
  ASSERT_EQ(result, CUDA_SUCCESS) << what;
}

/// The device, for as long as the program lives, and a stream.
CUstream deviceStream() {
  static CUstream stream = [] {
    CUcontext context;
    CUstream made = nullptr;
    check(cuInit(0), "cuInit");
    check(cuDevicePrimaryCtxRetain(&context, 0), "context");
    check(cuCtxSetCurrent(context), "context");
    check(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING), "stream");
    return made;
  }();
  return stream;
}

/// A copy of host memory on the device.
class DeviceCopy {
public:
  DeviceCopy(void *host, size_t bytes) : host(host), bytes(bytes) {
    check(cuMemAlloc(&address, std::max<size_t>(bytes, 16)), "memory");
    if (host)
      check(cuMemcpyHtoDAsync(address, host, bytes, deviceStream()), "copy");
  }
  ~DeviceCopy() { cuMemFree(address); }
  void fetch() {
    if (!host)
      return;
    check(cuMemcpyDtoHAsync(host, address, bytes, deviceStream()), "copy");
    check(cuStreamSynchronize(deviceStream()), "run");
  }
  CUdeviceptr address = 0;

private:
  void *host;
  size_t bytes;
};

/// The functions of a device module.
class LoadedModule {
public:
  explicit LoadedModule(ModuleOp device) {
    deviceStream();
    std::string ptx = llvm::cantFail(emitPTX(device, "sm_90"));
    check(cuModuleLoadData(&module, ptx.c_str()), "module");
  }
  ~LoadedModule() { cuModuleUnload(module); }
  void launch(const kernels::DeviceLaunch &launch, int64_t blocks,
              MutableArrayRef<CUdeviceptr> args) {
    CUfunction function;
    check(cuModuleGetFunction(&function, module, launch.symbol.c_str()),
          launch.symbol.c_str());
    SmallVector<void *> parameters;
    for (unsigned index : launch.args)
      parameters.push_back(&args[index]);
    check(cuLaunchKernel(function, blocks, 1, 1, launch.blockThreads, 1, 1,
                         launch.sharedBytes, deviceStream(), parameters.data(),
                         nullptr),
          launch.symbol.c_str());
  }

private:
  CUmodule module = nullptr;
};

class DeviceRunner : public KernelRunner {
public:
  void run(ArrayRef<Buffer *> buffers) override;
  void runOtherwise(ArrayRef<Buffer *> buffers, std::mt19937 &) override {
    run(buffers);
  }
  std::unique_ptr<LoadedModule> module;
  SmallVector<kernels::DeviceLaunch> launches;
  int64_t workspaceBytes = 0;
};

class DeviceOptimizer : public OptimizerRunner {
public:
  void run(const OptimizerSlices &slices, ArrayRef<float> scalars,
           int64_t begin, int64_t end) override;
  kernels::OptimizerTypes types;
  std::unique_ptr<LoadedModule> module;
  kernels::DeviceLaunch launch;
};

} // namespace

void DeviceRunner::run(ArrayRef<Buffer *> buffers) {
  std::vector<std::unique_ptr<DeviceCopy>> copies;
  DenseMap<Buffer *, DeviceCopy *> known;
  SmallVector<CUdeviceptr> args;
  for (Buffer *buffer : buffers) {
    DeviceCopy *&copy = known[buffer];
    if (!copy) {
      copies.push_back(std::make_unique<DeviceCopy>(buffer->bytes.data(),
                                                    buffer->bytes.size()));
      copy = copies.back().get();
    }
    args.push_back(copy->address);
  }
  DeviceCopy workspace(nullptr, workspaceBytes);
  args.push_back(workspace.address);
  for (const kernels::DeviceLaunch &launch : launches)
    module->launch(launch, launch.blocks, args);
  for (auto &copy : copies)
    copy->fetch();
}

/// Every slice begins where the part begins, so that it may be aligned to no
/// more than an element; or where the part's first block does.
void DeviceOptimizer::run(const OptimizerSlices &slices,
                          ArrayRef<float> scalars, int64_t begin, int64_t end) {
  int64_t at = types.state == SHX_I8 ? begin - begin % kStateBlock : begin;
  std::vector<std::unique_ptr<DeviceCopy>> copies;
  SmallVector<CUdeviceptr> args;
  auto add = [&](MutableArrayRef<uint8_t> slice, int64_t offset) {
    copies.push_back(std::make_unique<DeviceCopy>(
        slice.empty() ? nullptr : slice.data(), slice.size()));
    args.push_back(slice.empty() ? 0 : copies.back()->address + offset);
  };
  auto place = [at](ShxDType type) {
    return at * (type == SHX_F32 ? 4 : type == SHX_I8 ? 1 : 2);
  };
  if (types.halves)
    add(rawBytes(*slices.lower), place(types.param));
  else
    add(rawBytes(slices.master), place(SHX_F32));
  add(rawBytes(slices.gradient), place(SHX_F32));
  for (MutableArrayRef<uint8_t> state : slices.states)
    add(state, place(types.state));
  add(slices.params, place(types.param));
  std::vector<float> values(scalars);
  add(rawBytes(values), 0);
  for (MutableArrayRef<uint8_t> scales : slices.scales)
    add(scales, at / kStateBlock * int64_t(sizeof(float)));
  for (int64_t value : {at, begin - at, end - at})
    args.push_back(value);
  int64_t blocks = llvm::divideCeil(end - at, launch.elementsPerBlock);
  if (begin < end)
    module->launch(launch, blocks, args);
  for (auto &copy : copies)
    copy->fetch();
}

std::unique_ptr<KernelRunner>
test::makeRunner(nn::FusedOp fused, ArrayRef<MemRefType> types, StringRef) {
  auto kernel = kernels::Kernel::get(fused.getKind(), fused.getDomain(),
                                     fused.getBody().front(), types);
  if (failed(kernel))
    return nullptr;
  OwningOpRef<ModuleOp> device = ModuleOp::create(fused.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(device->getBody());
  auto launches = kernels::emitDeviceKernel(builder, fused.getLoc(), "kernel",
                                            *kernel, kernels::DeviceTarget());
  if (failed(launches))
    return nullptr;
  auto runner = std::make_unique<DeviceRunner>();
  runner->launches = *launches;
  runner->workspaceBytes = kernels::deviceWorkspaceBytes(*kernel);
  runner->module = std::make_unique<LoadedModule>(*device);
  return runner;
}

std::unique_ptr<OptimizerRunner>
test::makeOptimizerRunner(const kernels::OptimizerTypes &types) {
  MLIRContext context;
  OwningOpRef<ModuleOp> device = ModuleOp::create(UnknownLoc::get(&context));
  auto runner = std::make_unique<DeviceOptimizer>();
  if (failed(kernels::addDeviceOptimizerKernel(*device, "update", types,
                                               runner->launch)))
    return nullptr;
  runner->types = types;
  runner->module = std::make_unique<LoadedModule>(*device);
  return runner;
}

// Machine code for each chip and PTX for what comes after them.
TEST(DeviceImages, OfTwoChips) {
  if (auto ptxas = findPtxas(); !ptxas)
    GTEST_SKIP() << llvm::toString(ptxas.takeError());
  MLIRContext context;
  OwningOpRef<ModuleOp> device = ModuleOp::create(UnknownLoc::get(&context));
  kernels::DeviceLaunch launch;
  ASSERT_TRUE(succeeded(
      kernels::addDeviceOptimizerKernel(*device, "update", {}, launch)));
  auto images = emitDeviceImages(*device, {"sm_90", "sm_80"});
  ASSERT_TRUE(bool(images)) << llvm::toString(images.takeError());
  ASSERT_EQ(images->cubins.size(), 2u);
  EXPECT_EQ(images->cubins[0].arch, 80);
  EXPECT_EQ(images->cubins[1].arch, 90);
  for (const DeviceImage &cubin : images->cubins)
    EXPECT_EQ(cubin.bytes.substr(1, 3), "ELF");
  EXPECT_EQ(images->ptx.arch, 90);
  EXPECT_NE(images->ptx.bytes.find(".target sm_90"), std::string::npos);
}

TEST(DeviceImages, UnknownChip) {
  llvm::Error error = checkDeviceChip("sm_99x");
  ASSERT_TRUE(bool(error));
  std::string message = llvm::toString(std::move(error));
  EXPECT_NE(message.find("unknown GPU 'sm_99x'"), std::string::npos) << message;
  EXPECT_NE(message.find("sm_90"), std::string::npos) << message;
}
