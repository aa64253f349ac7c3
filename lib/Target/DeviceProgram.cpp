// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of a program as code for GPUs.

#include "shardonnx/Codegen/GPU/LowerDeviceKernels.h"
#include "shardonnx/Conversion/ExecToLLVM/ExecToLLVM.h"
#include "shardonnx/Object/DeviceImages.h"
#include "shardonnx/Target/Program.h"

#include "llvm/ADT/StringExtras.h"

#include <dlfcn.h>

using namespace mlir;
using namespace shardonnx;

bool shardonnx::hasCudaTarget() { return SHARDONNX_HAS_CUDA; }

// What the driver says of the first GPU: 90 for sm_90; 0 without one. Types are
// the driver API's, whose header this build may lack.
static int archOfThisMachine() {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return 0;
  auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
  auto attribute = reinterpret_cast<int (*)(int *, int, int)>(
      dlsym(library, "cuDeviceGetAttribute"));
  constexpr int kMajor = 75, kMinor = 76; // CUdevice_attribute
  int major = 0, minor = 0;
  bool known = init && attribute && init(0) == 0 &&
               attribute(&major, kMajor, 0) == 0 &&
               attribute(&minor, kMinor, 0) == 0;
  dlclose(library);
  return known ? major * 10 + minor : 0;
}

llvm::Expected<std::vector<std::string>>
shardonnx::resolveChips(StringRef arch) {
  if (arch == "native") {
    int native = archOfThisMachine();
    return std::vector<std::string>{"sm_" +
                                    std::to_string(native ? native : 90)};
  }
  std::vector<std::string> chips;
  for (StringRef name : llvm::split(arch, ',')) {
    if (llvm::Error error = checkDeviceChip(name))
      return error;
    chips.push_back(name.str());
  }
  return chips;
}

llvm::Expected<DeviceProgram>
shardonnx::buildDeviceProgram(ModuleOp module, const ProgramOptions &options) {
  auto failWith = [](StringRef what) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   what + " cannot be lowered to GPU code");
  };
  DeviceProgram program;
  OwningOpRef<ModuleOp> device = ModuleOp::create(module.getLoc());
  kernels::DeviceTarget target;
  if (failed(kernels::lowerDeviceKernels(module, *device, target,
                                         program.launches)))
    return failWith("a kernel");
  for (ShxDType type : paramTypesOf(module))
    for (kernels::OptimizerPart part : optimizerPartsOf(module)) {
      std::string name = optimizerKernelName(type, part);
      if (failed(kernels::addDeviceOptimizerKernel(
              *device, name,
              deviceOptimizerTypes(module, options.optimizer, type,
                                   options.types, part),
              program.optimizers[name])))
        return failWith("the optimizer");
    }
  llvm::Expected<DeviceImages> images =
      emitDeviceImages(*device, options.chips);
  if (!images)
    return images.takeError();
  for (DeviceImage &cubin : images->cubins)
    program.images.push_back({SHX_CUBIN, cubin.arch, std::move(cubin.bytes)});
  // For chips that are later than all of these; ends with a null byte.
  program.images.push_back(
      {SHX_PTX, images->ptx.arch, std::move(images->ptx.bytes) + '\0'});
  return program;
}
