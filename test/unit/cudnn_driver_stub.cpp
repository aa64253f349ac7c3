// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A libcuda.so.1 that takes any machine code and runs none: what cuDNN needs to
// make plans for a GPU that is only described to it. It looks for all of these
// names, and the others fail.

#include <cstdint>

extern "C" {

using Result = int;
constexpr Result kSuccess = 0, kStub = 34; // CUDA_ERROR_STUB_LIBRARY

// Addresses that nobody reads.
static Result give(void **result) {
  static char something;
  *result = &something;
  return kSuccess;
}

Result cuLibraryLoadData(void **library, const void *, void *, void *, unsigned,
                         void *, void *, unsigned) {
  return give(library);
}
Result cuLibraryUnload(void *) { return kSuccess; }
Result cuLibraryGetKernel(void **kernel, void *, const char *) {
  return give(kernel);
}
Result cuLibraryGetModule(void **module, void *) { return give(module); }
Result cuKernelGetFunction(void **function, void *) { return give(function); }
Result cuKernelSetAttribute(int, int, void *, int) { return kSuccess; }
Result cuModuleLoadData(void **module, const void *) { return give(module); }
Result cuModuleLoadDataEx(void **module, const void *, unsigned, void *,
                          void *) {
  return give(module);
}
Result cuModuleUnload(void *) { return kSuccess; }
Result cuModuleGetFunction(void **function, void *, const char *) {
  return give(function);
}
Result cuFuncSetAttribute(void *, int, int) { return kSuccess; }
Result cuGetErrorString(Result, const char **text) {
  *text = "no CUDA driver";
  return kSuccess;
}
Result cuGetErrorName(Result, const char **text) {
  *text = "CUDA_ERROR_STUB_LIBRARY";
  return kSuccess;
}

#define SHX_FAILS(name)                                                        \
  Result name() { return kStub; }
SHX_FAILS(cuCtxGetCurrent)
SHX_FAILS(cuCtxGetLimit)
SHX_FAILS(cuCtxPopCurrent)
SHX_FAILS(cuCtxPushCurrent)
SHX_FAILS(cuDeviceGet)
SHX_FAILS(cuDeviceGetCount)
SHX_FAILS(cuDriverGetVersion)
SHX_FAILS(cuFuncGetAttribute)
SHX_FAILS(cuInit)
SHX_FAILS(cuKernelGetAttribute)
SHX_FAILS(cuLaunchCooperativeKernel)
SHX_FAILS(cuLaunchKernel)
SHX_FAILS(cuLaunchKernelEx)
SHX_FAILS(cuLibraryLoadFromFile)
SHX_FAILS(cuLinkAddData)
SHX_FAILS(cuLinkComplete)
SHX_FAILS(cuLinkCreate)
SHX_FAILS(cuLinkDestroy)
SHX_FAILS(cuOccupancyMaxPotentialClusterSize)
SHX_FAILS(cuStreamGetCtx)
}
