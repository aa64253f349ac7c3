// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CUPTI's activity API over the emulated device: kernels, copies and fills with
// the times at which they were interpreted, handed out when they are asked for.
// SHARDONNX_EMULATOR_CUPTI=0: it refuses, as a driver does that keeps profiling
// to root.

#include "driver/Hooks.h"
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <cupti.h>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace {

struct Ran {
  CUpti_ActivityKind kind;
  uint8_t copy; // CUpti_ActivityMemcpyKind
  const char *name;
  uint64_t begin, end, node;
  uint32_t stream;
};

struct State {
  std::mutex mutex;
  std::set<CUpti_ActivityKind> enabled;
  std::set<std::string> names; // what records point to
  std::vector<Ran> ran;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
};

State &state() {
  static auto *made = new State; // streams may outlive main()
  return *made;
}

bool is(const char *name, const char *what) {
  return std::strcmp(name, what) == 0;
}

/// What CUPTI calls a piece of work; false for what it does not record.
bool classify(const char *name, Ran &ran) {
  constexpr const char *kKernel = "kernel ";
  ran.copy = CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
  ran.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  if (is(name, "copy to the device"))
    ran.copy = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  else if (is(name, "copy to the host"))
    ran.copy = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  else if (is(name, "fill"))
    ran.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  else if (std::strncmp(name, kKernel, std::strlen(kKernel)) == 0)
    ran.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  else if (std::strncmp(name, "cublas", 6) == 0 ||
           std::strncmp(name, "nccl", 4) == 0)
    ran.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  else
    return std::strncmp(name, "copy", 4) == 0;
  return true;
}

void observe(const char *name, uint64_t begin, uint64_t end, uint32_t stream,
             uint64_t node) {
  Ran ran{};
  if (!classify(name, ran))
    return;
  if (std::strncmp(name, "kernel ", 7) == 0)
    name += 7;
  State &all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (!all.enabled.count(ran.kind))
    return;
  ran.name = all.names.insert(name).first->c_str();
  ran.begin = begin;
  ran.end = end;
  ran.node = node;
  ran.stream = stream;
  all.ran.push_back(ran);
}

template <typename Activity> Activity recordOf(const Ran &ran) {
  Activity record{};
  record.kind = ran.kind;
  record.start = ran.begin;
  record.end = ran.end;
  record.streamId = ran.stream;
  record.graphNodeId = ran.node;
  return record;
}

size_t sizeOf(CUpti_ActivityKind kind) {
  switch (kind) {
  case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    return sizeof(CUpti_ActivityKernel10);
  case CUPTI_ACTIVITY_KIND_MEMCPY:
    return sizeof(CUpti_ActivityMemcpy6);
  default:
    return sizeof(CUpti_ActivityMemset4);
  }
}

void write(uint8_t *to, const Ran &ran) {
  if (ran.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    auto record = recordOf<CUpti_ActivityKernel10>(ran);
    record.name = ran.name;
    std::memcpy(to, &record, sizeof(record));
  } else if (ran.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    auto record = recordOf<CUpti_ActivityMemcpy6>(ran);
    record.copyKind = ran.copy;
    std::memcpy(to, &record, sizeof(record));
  } else {
    auto record = recordOf<CUpti_ActivityMemset4>(ran);
    std::memcpy(to, &record, sizeof(record));
  }
}

} // namespace

extern "C" {

CUptiResult cuptiGetVersion(uint32_t *version) {
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text) {
  *text = result == CUPTI_SUCCESS ? "CUPTI_SUCCESS"
          : result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
              ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
              : "an error";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *time) {
  *time = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::steady_clock::now().time_since_epoch())
          .count());
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetStreamIdEx(CUcontext, CUstream stream, uint8_t,
                               uint32_t *id) {
  *id = shardonnxEmulatorStreamId(stream);
  return *id ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_STREAM;
}

CUptiResult
cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                               CUpti_BuffersCallbackCompleteFunc complete) {
  const char *refuses = std::getenv("SHARDONNX_EMULATOR_CUPTI");
  if (refuses && is(refuses, "0"))
    return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  State &all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.request = request;
  all.complete = complete;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  State &all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.enabled.insert(kind);
  shardonnxEmulatorObserve(observe);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  State &all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.enabled.erase(kind);
  if (all.enabled.empty())
    shardonnxEmulatorObserve(nullptr);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t) {
  State &all = state();
  std::vector<Ran> ran;
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    ran.swap(all.ran);
  }
  for (size_t next = 0; next < ran.size();) {
    uint8_t *buffer = nullptr;
    size_t size = 0, most = 0, used = 0;
    all.request(&buffer, &size, &most);
    if (!buffer)
      return CUPTI_ERROR_OUT_OF_MEMORY;
    for (; next < ran.size() && used + sizeOf(ran[next].kind) <= size; ++next) {
      write(buffer + used, ran[next]);
      used += sizeOf(ran[next].kind);
    }
    all.complete(nullptr, 0, buffer, size, used);
  }
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t bytes,
                                       CUpti_Activity **record) {
  uint8_t *next = buffer;
  if (*record)
    next = reinterpret_cast<uint8_t *>(*record) + sizeOf((*record)->kind);
  if (next >= buffer + bytes)
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity *>(next);
  return CUPTI_SUCCESS;
}
}
