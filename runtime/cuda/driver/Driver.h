// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The CUDA driver API as a table of functions, loaded at run time: a program
// that is started where there is no GPU says so and ends. Call them as
// driver().cuMemAlloc(…); <cuda.h> gives the names their versions.

#ifndef SHARDONNX_RUNTIME_CUDA_DRIVER_H
#define SHARDONNX_RUNTIME_CUDA_DRIVER_H

#include "../../support/Error.h"
#include <cuda.h>

/// Every function of the driver that this runtime calls.
#define SHX_CUDA_DRIVER_FUNCTIONS(X)                                           \
  X(cuCtxGetCurrent)                                                           \
  X(cuCtxGetStreamPriorityRange)                                               \
  X(cuCtxSetCurrent)                                                           \
  X(cuCtxSynchronize)                                                          \
  X(cuDeviceGet)                                                               \
  X(cuDeviceGetAttribute)                                                      \
  X(cuDeviceGetCount)                                                          \
  X(cuDeviceGetName)                                                           \
  X(cuDeviceGetPCIBusId)                                                       \
  X(cuDeviceGetUuid)                                                           \
  X(cuDevicePrimaryCtxRelease)                                                 \
  X(cuDevicePrimaryCtxRetain)                                                  \
  X(cuDeviceTotalMem)                                                          \
  X(cuDriverGetVersion)                                                        \
  X(cuEventCreate)                                                             \
  X(cuEventDestroy)                                                            \
  X(cuEventElapsedTime)                                                        \
  X(cuEventQuery)                                                              \
  X(cuEventRecord)                                                             \
  X(cuEventSynchronize)                                                        \
  X(cuFuncGetAttribute)                                                        \
  X(cuFuncSetAttribute)                                                        \
  X(cuGetErrorName)                                                            \
  X(cuGetErrorString)                                                          \
  X(cuGraphDestroy)                                                            \
  X(cuGraphExecDestroy)                                                        \
  X(cuGraphGetNodes)                                                           \
  X(cuGraphInstantiate)                                                        \
  X(cuGraphLaunch)                                                             \
  X(cuGraphNodeGetType)                                                        \
  X(cuGraphUpload)                                                             \
  X(cuInit)                                                                    \
  X(cuLaunchKernel)                                                            \
  X(cuLaunchKernelEx)                                                          \
  X(cuMemAlloc)                                                                \
  X(cuMemFree)                                                                 \
  X(cuMemFreeHost)                                                             \
  X(cuMemGetInfo)                                                              \
  X(cuMemHostAlloc)                                                            \
  X(cuMemcpyDtoD)                                                              \
  X(cuMemcpyDtoDAsync)                                                         \
  X(cuMemcpyDtoH)                                                              \
  X(cuMemcpyDtoHAsync)                                                         \
  X(cuMemcpyHtoD)                                                              \
  X(cuMemcpyHtoDAsync)                                                         \
  X(cuMemsetD32Async)                                                          \
  X(cuMemsetD8)                                                                \
  X(cuMemsetD8Async)                                                           \
  X(cuModuleGetFunction)                                                       \
  X(cuModuleLoadDataEx)                                                        \
  X(cuModuleUnload)                                                            \
  X(cuStreamBeginCapture)                                                      \
  X(cuStreamCreateWithPriority)                                                \
  X(cuStreamDestroy)                                                           \
  X(cuStreamEndCapture)                                                        \
  X(cuStreamGetCaptureInfo)                                                    \
  X(cuStreamIsCapturing)                                                       \
  X(cuStreamQuery)                                                             \
  X(cuStreamSynchronize)                                                       \
  X(cuStreamWaitEvent)                                                         \
  X(cuStreamWriteValue32)

// …and those that it does without where a driver has none.
#define SHX_CUDA_DRIVER_OPTIONAL(X)                                            \
  X(cuFuncLoad)                                                                \
  X(cuGetExportTable)

namespace shardonnx::rt::cuda {

struct DriverApi {
/// NOLINTNEXTLINE(bugprone-macro-parentheses): it declares the name.
#define SHX_CUDA_MEMBER(name) decltype(&::name) name = nullptr;
  SHX_CUDA_DRIVER_FUNCTIONS(SHX_CUDA_MEMBER)
  SHX_CUDA_DRIVER_OPTIONAL(SHX_CUDA_MEMBER)
#undef SHX_CUDA_MEMBER
};

/// Loaded and initialised by the first call, which throws the Error of a
/// machine without a driver.
const DriverApi &driver();

/// The name and the words that the driver has for a result.
std::string describe(CUresult result);

/// Whether the result tells of work that was enqueued before, so that the call
/// that returned it is not to blame.
bool isAsynchronous(CUresult result);

[[noreturn]] void failCuda(CUresult result, const std::string &what);

/// check(driver().cuX(…), "doing this with that"): throws an Error unless it
/// succeeded. `what` completes "CUDA failed when ".
template <typename... Parts> void check(CUresult result, const Parts &...what) {
  if (result != CUDA_SUCCESS)
    failCuda(result, concat(what...));
}

/// Device memory as the driver's type, and as the pointer that the ABI has.
inline CUdeviceptr deviceAddress(const void *pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
template <typename T = void> T *devicePointer(CUdeviceptr address) {
  return reinterpret_cast<T *>(address);
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_DRIVER_H
