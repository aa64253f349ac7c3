// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory of the device and of the host, copies and fills. Asynchronous work
// reads host memory when it runs, not when it is asked for.

#include "Driver.h"
#include <cstdlib>
#include <cstring>

using namespace shardonnx::emulator;

std::shared_ptr<void>
shardonnx::emulator::reserveMemory(int device, size_t bytes,
                                   const std::string &what) {
  if (!DeviceMemory::get().reserve(device, bytes)) {
    say("the device has no memory left for " + what);
    return nullptr;
  }
  return std::shared_ptr<void>(new char, [device, bytes](void *p) {
    DeviceMemory::get().unreserve(device, bytes);
    delete static_cast<char *>(p);
  });
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
  if (CUresult result = enterUnsafe("cuMemAlloc"))
    return result;
  if (!bytes)
    return CUDA_ERROR_INVALID_VALUE;
  *address = DeviceMemory::get().allocate(currentContext()->device, bytes);
  return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFree(CUdeviceptr address) {
  if (CUresult result = enterUnsafe("cuMemFree"))
    return result;
  if (!address)
    return CUDA_SUCCESS;
  // It waits for everything that may still use the memory.
  drainStreams(currentContext(), true);
  return DeviceMemory::get().release(address) ? CUDA_SUCCESS
                                              : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetInfo(size_t *free, size_t *total) {
  if (CUresult result = enter())
    return result;
  const DeviceMemory &memory = DeviceMemory::get();
  *total = memory.total();
  *free = memory.total() - memory.used(currentContext()->device);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes,
                              CUdeviceptr address) {
  MemoryRange range;
  if (!DeviceMemory::get().find(address, range))
    return CUDA_ERROR_NOT_FOUND;
  if (base)
    *base = range.low;
  if (bytes)
    *bytes = range.high - range.low;
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **host, size_t bytes, unsigned) {
  if (CUresult result = enterUnsafe("cuMemHostAlloc"))
    return result;
  size_t rounded = (bytes + 4095) / 4096 * 4096;
  *host = std::aligned_alloc(4096, rounded ? rounded : 4096);
  if (!*host)
    return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(*host, 0xff, bytes);
  DeviceMemory::get().pin(*host, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocHost(void **host, size_t bytes) {
  return cuMemHostAlloc(host, bytes, 0);
}

CUresult cuMemFreeHost(void *host) {
  if (CUresult result = enterUnsafe("cuMemFreeHost"))
    return result;
  drainStreams(currentContext(), true);
  if (!DeviceMemory::get().unpin(host))
    return CUDA_ERROR_INVALID_VALUE;
  std::free(host);
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void *host, size_t bytes, unsigned) {
  if (CUresult result = enterUnsafe("cuMemHostRegister"))
    return result;
  MemoryRange range;
  if (DeviceMemory::get().find(reinterpret_cast<uint64_t>(host), range))
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  DeviceMemory::get().pin(host, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *host) {
  if (CUresult result = enterUnsafe("cuMemHostUnregister"))
    return result;
  return DeviceMemory::get().unpin(host)
             ? CUDA_SUCCESS
             : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *address, void *host, unsigned) {
  *address = reinterpret_cast<CUdeviceptr>(host);
  MemoryRange range;
  return DeviceMemory::get().find(*address, range) ? CUDA_SUCCESS
                                                   : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute,
                               CUdeviceptr address) {
  MemoryRange range;
  if (!DeviceMemory::get().find(address, range))
    return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    *static_cast<unsigned *>(value) =
        range.pinned ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    *static_cast<int *>(value) = range.device;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    *static_cast<unsigned *>(value) = 0;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_NOT_SUPPORTED;
  }
}

/// The bytes of the device, or a Fault.
static char *bytesOf(CUdeviceptr address, size_t bytes, bool writes,
                     const char *call) {
  char *host = DeviceMemory::get().translate(address, bytes);
  if (!host)
    throw Fault(CUDA_ERROR_ILLEGAL_ADDRESS,
                std::string(call) + ": " +
                    DeviceMemory::get().describe(address, bytes));
  if (raceChecking())
    touchMemory(host, bytes, writes);
  return host;
}

/// A pointer of the host must not be one of the device.
static char *hostBytes(const void *pointer, const char *call) {
  uint64_t address = reinterpret_cast<uint64_t>(pointer);
  if (address >> 48)
    throw Fault(CUDA_ERROR_ILLEGAL_ADDRESS,
                std::string(call) + ": a device pointer where one of the host "
                                    "is expected");
  return const_cast<char *>(static_cast<const char *>(pointer));
}

/// Either kind, as unified addressing allows.
static char *anyBytes(CUdeviceptr address, size_t bytes, bool writes,
                      const char *call) {
  if (address >> 48)
    return bytesOf(address, bytes, writes, call);
  return reinterpret_cast<char *>(address);
}

/// What the host does itself comes after all it has waited for.
static Order hostOrder(const char *name) {
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  Order order;
  order.name = name;
  order.clock = std::make_shared<const Clock>(driver.host);
  order.sequence = ++driver.host[0];
  return order;
}

/// Synchronous calls run here, after the streams that do not opt out of it.
static CUresult runNow(const char *name, const Work &work) {
  if (CUresult result = enterUnsafe(name))
    return result;
  drainStreams(currentContext(), false);
  try {
    if (raceChecking())
      inOrder(hostOrder(name), work)();
    else
      work();
  } catch (const Fault &fault) {
    say(fault.what());
    return CUDA_ERROR_INVALID_VALUE;
  }
  return currentContext()->error;
}

static CUstream unfinishedOf(CUctx_st *context) {
  std::lock_guard<std::recursive_mutex> lock(Driver::get().mutex);
  if (!context->unfinished)
    cuStreamCreate(&context->unfinished, CU_STREAM_DEFAULT);
  return context->unfinished;
}

/// Calls that return before the device's memory is written. What is written is
/// ordered with no stream that opts out of the default one.
static CUresult finishLater(const char *name, CUdeviceptr to, size_t bytes,
                            Work work) {
  CUresult result = runNow(name, [=] {
    if (!DeviceMemory::get().translate(to, bytes))
      throw Fault(CUDA_ERROR_ILLEGAL_ADDRESS,
                  std::string(name) + ": " +
                      DeviceMemory::get().describe(to, bytes));
  });
  return result
             ? result
             : enqueue(unfinishedOf(currentContext()), name, std::move(work));
}

static Work toDevice(CUdeviceptr to, const void *from, size_t bytes) {
  return [=] {
    std::memcpy(bytesOf(to, bytes, true, "copy to the device"),
                hostBytes(from, "copy to the device"), bytes);
  };
}

static Work toHost(void *to, CUdeviceptr from, size_t bytes) {
  return [=] {
    std::memcpy(hostBytes(to, "copy to the host"),
                bytesOf(from, bytes, false, "copy to the host"), bytes);
  };
}

static Work onDevice(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return [=] {
    std::memmove(bytesOf(to, bytes, true, "copy on the device"),
                 bytesOf(from, bytes, false, "copy on the device"), bytes);
  };
}

static Work anywhere(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return [=] {
    std::memmove(anyBytes(to, bytes, true, "copy"),
                 anyBytes(from, bytes, false, "copy"), bytes);
  };
}

template <class T> static Work fill(CUdeviceptr to, T value, size_t count) {
  return [=] {
    T *host =
        reinterpret_cast<T *>(bytesOf(to, count * sizeof(T), true, "fill"));
    if (to % sizeof(T))
      throw Fault(CUDA_ERROR_INVALID_VALUE, "fill of a misaligned address");
    std::fill(host, host + count, value);
  };
}

static bool isPinned(const void *host) {
  MemoryRange range;
  return DeviceMemory::get().find(reinterpret_cast<uint64_t>(host), range) &&
         range.pinned;
}

/// Of memory that is not page-locked it returns when that has been read.
CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
  constexpr const char *name = "cuMemcpyHtoD";
  if (isPinned(from) || reinterpret_cast<uint64_t>(from) >> 48)
    return runNow(name, toDevice(to, from, bytes));
  const char *begin = static_cast<const char *>(from);
  auto staged = std::make_shared<std::vector<char>>(begin, begin + bytes);
  return finishLater(name, to, bytes, [=] {
    std::memcpy(bytesOf(to, bytes, true, name), staged->data(), bytes);
  });
}
CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
  return runNow("cuMemcpyDtoH", toHost(to, from, bytes));
}
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return runNow("cuMemcpyDtoD", onDevice(to, from, bytes));
}
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return runNow("cuMemcpy", anywhere(to, from, bytes));
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes,
                           CUstream stream) {
  return enqueue(stream, "copy to the device", toDevice(to, from, bytes));
}
/// A few bytes for the host to look at are no work for a copy engine, which the
/// stream would stand and wait for in every launch of the graph.
static CUresult checkCapturedCopy(CUstream stream, size_t bytes) {
  constexpr size_t kFewBytes = 16;
  if (CUresult result = enterStream(stream))
    return result;
  std::lock_guard<std::recursive_mutex> lock(Driver::get().mutex);
  if (!stream->capture || bytes > kFewBytes)
    return CUDA_SUCCESS;
  say("a copy of " + std::to_string(bytes) +
      " bytes to the host is captured: write the value (cuStreamWriteValue)");
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes,
                           CUstream stream) {
  if (CUresult result = checkCapturedCopy(stream, bytes))
    return result;
  return enqueue(stream, "copy to the host", toHost(to, from, bytes));
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                           CUstream stream) {
  return enqueue(stream, "copy on the device", onDevice(to, from, bytes));
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                       CUstream stream) {
  return enqueue(stream, "copy", anywhere(to, from, bytes));
}

/// Into memory of the device, or page-locked memory of the host.
template <class T> static Work writeValue(CUdeviceptr to, T value) {
  return [=] {
    MemoryRange range;
    if (to % sizeof(T) || !DeviceMemory::get().find(to, range) ||
        range.high - to < sizeof(T))
      throw Fault(CUDA_ERROR_ILLEGAL_ADDRESS,
                  "a value is written to an address that is misaligned, or "
                  "neither of the device nor page-locked");
    auto *place = reinterpret_cast<T *>(
        range.pinned ? reinterpret_cast<char *>(to)
                     : bytesOf(to, sizeof(T), true, "write of a value"));
    __atomic_store_n(place, value, __ATOMIC_RELEASE);
  };
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr to, cuuint32_t value,
                              unsigned flags) {
  if (flags != CU_STREAM_WRITE_VALUE_DEFAULT)
    return CUDA_ERROR_INVALID_VALUE;
  return enqueue(stream, "write of a value", writeValue(to, value));
}
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr to, cuuint64_t value,
                              unsigned flags) {
  if (flags != CU_STREAM_WRITE_VALUE_DEFAULT)
    return CUDA_ERROR_INVALID_VALUE;
  return enqueue(stream, "write of a value", writeValue(to, value));
}

template <class T>
static CUresult setLater(const char *name, CUdeviceptr to, T value,
                         size_t count) {
  return finishLater(name, to, count * sizeof(T), fill(to, value, count));
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
  return setLater("cuMemsetD8", to, value, count);
}
CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
  return setLater("cuMemsetD16", to, value, count);
}
CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
  return setLater("cuMemsetD32", to, value, count);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                         CUstream stream) {
  return enqueue(stream, "fill", fill(to, value, count));
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count,
                          CUstream stream) {
  return enqueue(stream, "fill", fill(to, value, count));
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count,
                          CUstream stream) {
  return enqueue(stream, "fill", fill(to, value, count));
}
