// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Driver.h.

#include "Driver.h"
#include "CallTrace.h"
#include "Library.h"

namespace shardonnx::rt::cuda {
namespace {

constexpr const char *kNoGpu =
    "this program needs a GPU; compile with --target=cpu to train here";

const Library &driverLibrary() {
  static const Library library = [] {
    try {
      return Library({"libcuda.so.1"}, "the NVIDIA driver", "");
    } catch (const Error &) {
      fail("no NVIDIA driver (libcuda.so.1) on this machine: ", kNoGpu);
    }
  }();
  return library;
}

// Names are macros that stand for a version: expanded, then made a string.
#define SHX_CUDA_STRING(text) #text
#define SHX_CUDA_NAME(name) SHX_CUDA_STRING(name)

DriverApi loadDriver() {
  const Library &library = driverLibrary();
  DriverApi api;
#define SHX_CUDA_LOAD(name)                                                    \
  library.load(api.name, SHX_CUDA_NAME(name));                                 \
  SHX_TRACED(api, name, "cuda", SHX_CUDA_NAME(name))
  SHX_CUDA_DRIVER_FUNCTIONS(SHX_CUDA_LOAD)
#undef SHX_CUDA_LOAD
#define SHX_CUDA_FIND(name)                                                    \
  api.name =                                                                   \
      reinterpret_cast<decltype(api.name)>(library.find(SHX_CUDA_NAME(name)));
  SHX_CUDA_DRIVER_OPTIONAL(SHX_CUDA_FIND)
#undef SHX_CUDA_FIND
  CUresult result = api.cuInit(0);
  if (result == CUDA_ERROR_NO_DEVICE)
    fail("no GPU that CUDA can use on this machine (CUDA_VISIBLE_DEVICES may "
         "hide it): ",
         kNoGpu);
  if (result != CUDA_SUCCESS) {
    const char *text = nullptr;
    api.cuGetErrorString(result, &text);
    fail("the NVIDIA driver does not start: ", text ? text : "unknown error",
         " (", static_cast<int>(result), "); `nvidia-smi` may tell why");
  }
  return api;
}

} // namespace

const DriverApi &driver() {
  static const DriverApi api = loadDriver();
  return api;
}

std::string describe(CUresult result) {
  const char *name = nullptr, *text = nullptr;
  driver().cuGetErrorName(result, &name);
  driver().cuGetErrorString(result, &text);
  return concat(name ? name : "unknown error", " (", text ? text : "no text",
                ")");
}

bool isAsynchronous(CUresult result) {
  switch (result) {
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_LAUNCH_FAILED:
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_INVALID_PC:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_ECC_UNCORRECTABLE:
  case CUDA_ERROR_NVLINK_UNCORRECTABLE:
  case CUDA_ERROR_ASSERT:
  case CUDA_ERROR_EXTERNAL_DEVICE:
    return true;
  default:
    return false;
  }
}

void failCuda(CUresult result, const std::string &what) {
  if (isAsynchronous(result))
    fail("CUDA failed at or before ", what, ": ", describe(result),
         "; run with CUDA_LAUNCH_BLOCKING=1 SHARDONNX_CUDA_GRAPHS=0 to find "
         "the kernel");
  fail("CUDA failed when ", what, ": ", describe(result));
}

} // namespace shardonnx::rt::cuda
