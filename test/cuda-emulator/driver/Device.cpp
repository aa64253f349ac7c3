// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Devices, contexts, names of errors and look-up of entry points.

#include "Driver.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

using namespace shardonnx::emulator;

/// All devices, or those that CUDA_VISIBLE_DEVICES names up to the first that
/// does not exist.
static void findDevices(Driver &driver, int count) {
  const char *text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!text) {
    for (int device = 0; device < count; ++device)
      driver.visible.push_back(device);
  }
  while (text && *text) {
    char *end;
    long device = std::strtol(text, &end, 10);
    if (end == text || device < 0 || device >= count)
      break;
    driver.visible.push_back(static_cast<int>(device));
    text = *end == ',' ? end + 1 : end;
  }
  driver.devices = static_cast<int>(driver.visible.size());
}

CUresult cuInit(unsigned flags) {
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  if (flags)
    return CUDA_ERROR_INVALID_VALUE;
  if (driver.initialised)
    return CUDA_SUCCESS;
  const char *text = std::getenv("SHARDONNX_EMULATOR_DEVICES");
  findDevices(driver, text ? std::atoi(text) : 1);
  if (driver.devices <= 0)
    return CUDA_ERROR_NO_DEVICE;
  for (int device = 0; device < driver.devices; ++device) {
    driver.primary.push_back(std::make_unique<CUctx_st>());
    driver.primary.back()->device = device;
  }
  driver.initialised = true;
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
  const char *text = std::getenv("SHARDONNX_EMULATOR_DRIVER_VERSION");
  *version = text ? std::atoi(text) : 13000;
  return CUDA_SUCCESS;
}

static CUresult checkDevice(CUdevice device) {
  Driver &driver = Driver::get();
  if (!driver.initialised)
    return CUDA_ERROR_NOT_INITIALIZED;
  return device >= 0 && device < driver.devices ? CUDA_SUCCESS
                                                : CUDA_ERROR_INVALID_DEVICE;
}

static int physical(CUdevice device) {
  return Driver::get().visible[static_cast<size_t>(device)];
}

CUresult cuDeviceGetCount(int *count) {
  if (!Driver::get().initialised)
    return CUDA_ERROR_NOT_INITIALIZED;
  *count = Driver::get().devices;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return checkDevice(ordinal);
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  if (CUresult result = checkDevice(device))
    return result;
  std::snprintf(name, static_cast<size_t>(length), "Shardonnx emulated device");
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  if (CUresult result = checkDevice(device))
    return result;
  std::memcpy(uuid->bytes, "emulated device", sizeof uuid->bytes);
  uuid->bytes[15] = static_cast<char>(physical(device));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device) {
  if (CUresult result = checkDevice(device))
    return result;
  std::snprintf(id, static_cast<size_t>(length), "0000:%02X:00.0",
                physical(device) + 1);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
  *bytes = DeviceMemory::get().total();
  return checkDevice(device);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                              CUdevice device) {
  static const std::unordered_map<int, int> values = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 227 << 10},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 << 10},
      {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1 << 10},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
      {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 2619000},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 50 << 20},
      {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
      {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
      {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
      {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
      {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1},
  };
  if (CUresult result = checkDevice(device))
    return result;
  // What is not listed is a feature that is not there.
  auto found = values.find(attribute);
  *value = found == values.end() ? 0 : found->second;
  if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
    *value = physical(device) + 1;
  return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice, CUdevice) {
  *can = 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  if (CUresult result = checkDevice(device))
    return result;
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  *context = driver.primary[static_cast<size_t>(device)].get();
  ++(*context)->retained;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  if (CUresult result = checkDevice(device))
    return result;
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  CUctx_st &context = *driver.primary[static_cast<size_t>(device)];
  if (!context.retained)
    return CUDA_ERROR_INVALID_CONTEXT;
  // A context that comes back works again after an error.
  if (--context.retained == 0)
    context.error = CUDA_SUCCESS;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned) {
  return checkDevice(device);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags,
                                    int *active) {
  if (CUresult result = checkDevice(device))
    return result;
  *flags = 0;
  *active = Driver::get().primary[static_cast<size_t>(device)]->retained > 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  std::vector<CUctx_st *> &stack = contextStack();
  if (!stack.empty())
    stack.pop_back();
  if (context)
    stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = currentContext();
  return Driver::get().initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  if (!context)
    return CUDA_ERROR_INVALID_CONTEXT;
  contextStack().push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context) {
  if (contextStack().empty())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (context)
    *context = currentContext();
  contextStack().pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
  if (CUresult result = enter())
    return result;
  *device = currentContext()->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  if (CUresult result = enterUnsafe("cuCtxSynchronize"))
    return result;
  drainStreams(currentContext(), true);
  return currentContext()->error;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  if (least)
    *least = 0;
  if (greatest)
    *greatest = -5;
  return enter();
}

CUresult cuProfilerStart() { return enter(); }
CUresult cuProfilerStop() { return enter(); }

namespace {
struct ErrorText {
  const char *name, *text;
};
} // namespace

static const ErrorText *findError(CUresult error) {
#define ERROR(name, text)                                                      \
  {                                                                            \
    name, { #name, text }                                                      \
  }
  static const std::unordered_map<int, ErrorText> texts = {
      ERROR(CUDA_SUCCESS, "no error"),
      ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
      ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
      ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
      ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
      ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
      ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
      ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
      ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU,
            "no kernel image is available for execution on the device"),
      ERROR(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
      ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
      ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in "
                                      "the present state"),
      ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
      ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
      ERROR(CUDA_ERROR_ILLEGAL_ADDRESS,
            "an illegal memory access was encountered"),
      ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
            "too many resources requested for launch"),
      ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
      ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
      ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
      ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
      ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
            "part or all of the requested memory range is already mapped"),
      ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
            "pointer does not correspond to a registered memory region"),
      ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            "operation not permitted when stream is capturing"),
      ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
            "operation failed due to a previous error during capture"),
      ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE,
            "operation would result in a merge of separate capture sequences"),
      ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
            "capture was not ended in the same stream as it began"),
      ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
            "capturing stream has unjoined work"),
      ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
            "dependency created on uncaptured work in another stream"),
      ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
            "attempt to terminate a thread-local capture sequence from "
            "another thread"),
      ERROR(CUDA_ERROR_CAPTURED_EVENT,
            "operation not permitted on an event last recorded in a capturing "
            "stream"),
      ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
  };
#undef ERROR
  auto found = texts.find(error);
  return found == texts.end() ? nullptr : &found->second;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
  const ErrorText *found = findError(error);
  *name = found ? found->name : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  const ErrorText *found = findError(error);
  *text = found ? found->text : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetProcAddress(const char *symbol, void **function, int, cuuint64_t,
                          CUdriverProcAddressQueryResult *status) {
  static void *self = [] {
    Dl_info info;
    dladdr(reinterpret_cast<void *>(&cuInit), &info);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  *function = nullptr;
  // The newest version is the only one there is.
  for (const char *version : {"_v4", "_v3", "_v2", ""})
    if (!*function)
      *function = dlsym(self, (std::string(symbol) + version).c_str());
  if (status)
    *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS
                        : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
