// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Cupti.h. CUPTI hands out its records in buffers that it asks for, on a
// thread of its own.

#include "Cupti.h"
#ifdef SHX_HAS_CUPTI
#include "../driver/Library.h"
#include <algorithm>
#include <cstdlib>
#include <cupti.h>
#include <cxxabi.h>
#endif

namespace shardonnx::rt::cuda {

#ifndef SHX_HAS_CUPTI

bool Cupti::builtIn() { return false; }
std::unique_ptr<Cupti> Cupti::make() { return nullptr; }

#else

namespace {

#define SHX_CUPTI_FUNCTIONS(X)                                                 \
  X(cuptiActivityDisable)                                                      \
  X(cuptiActivityEnable)                                                       \
  X(cuptiActivityFlushAll)                                                     \
  X(cuptiActivityGetNextRecord)                                                \
  X(cuptiActivityRegisterCallbacks)                                            \
  X(cuptiGetResultString)                                                      \
  X(cuptiGetStreamIdEx)                                                        \
  X(cuptiGetTimestamp)                                                         \
  X(cuptiGetVersion)

struct CuptiApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): it declares the name.
#define SHX_CUPTI_MEMBER(name) decltype(&::name) name = nullptr;
  SHX_CUPTI_FUNCTIONS(SHX_CUPTI_MEMBER)
#undef SHX_CUPTI_MEMBER
};

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET};
constexpr size_t kBufferBytes = 1 << 20;

const char *remedyOf(CUptiResult result) {
  switch (result) {
  case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
  case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
    return "run as root, or have the driver's module loaded with "
           "NVreg_RestrictProfilingToAdminUsers=0";
  case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
  case CUPTI_ERROR_HARDWARE_BUSY:
    return "another profiler is attached; end it";
  default:
    return "nvidia-smi tells the driver's version, which must not be older "
           "than CUPTI's CUDA";
  }
}

GpuWork workOf(uint8_t copyKind) {
  switch (copyKind) {
  case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    return GpuWork::Upload;
  case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    return GpuWork::Download;
  default:
    return GpuWork::Move;
  }
}

std::string demangled(const std::string &name) {
  int status = 0;
  char *text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text ? text : name;
  std::free(text);
  return result;
}

class Recorder : public Cupti {
public:
  Recorder();
  ~Recorder() override { disable(); }
  void begin() override;
  std::vector<GpuRecord> end(Trace &trace) override;
  uint32_t streamId(CUstream stream) override;

private:
  struct Record : GpuRecord {
    std::string kernel; // as it is mangled
  };
  void check(CUptiResult result, const char *what) const;
  void enable();
  void disable();
  void take(CUpti_Activity *activity);
  void keep(Record record);
  static void CUPTIAPI giveBuffer(uint8_t **buffer, size_t *size,
                                  size_t *maxRecords);
  static void CUPTIAPI takeBuffer(CUcontext context, uint32_t stream,
                                  uint8_t *buffer, size_t size,
                                  size_t validSize);

  static Recorder *self;
  const Library library;
  CuptiApi api;
  std::mutex mutex; // of the records
  bool recording = false;
  std::vector<Record> records;
  size_t lost = 0;
};

// The one of the driver's CUDA. An older one works with a newer driver, but
// knows less of it; the oldest is the one that this program was built for.
Library loadCupti() {
  constexpr int kBuilt = CUDA_VERSION / 1000;
  int version = 0;
  driver().cuDriverGetVersion(&version);
  std::vector<std::string> files;
  for (int major = std::max(version / 1000, kBuilt); major >= kBuilt; --major)
    for (std::string &file : Library::candidates(concat("libcupti.so.", major)))
      files.push_back(std::move(file));
  return {files, "CUPTI",
          "install it, or set LD_LIBRARY_PATH or CUDA_HOME to where it is"};
}

Recorder *Recorder::self = nullptr;

Recorder::Recorder() : library(loadCupti()) {
#define SHX_CUPTI_LOAD(name) library.load(api.name, #name);
  SHX_CUPTI_FUNCTIONS(SHX_CUPTI_LOAD)
#undef SHX_CUPTI_LOAD
  // Records only grow at their ends.
  uint32_t version = 0;
  check(api.cuptiGetVersion(&version), "telling its version");
  if (version < CUPTI_API_VERSION)
    fail("CUPTI ", version, " ('", library.path(),
         "') is older than the one that this program was built for, ",
         CUPTI_API_VERSION, ": install a newer one");
  self = this;
  check(api.cuptiActivityRegisterCallbacks(giveBuffer, takeBuffer),
        "taking the callbacks");
  enable();
}

void Recorder::check(CUptiResult result, const char *what) const {
  if (result == CUPTI_SUCCESS)
    return;
  const char *text = nullptr;
  api.cuptiGetResultString(result, &text);
  fail("CUPTI failed when ", what, ": ", text ? text : "unknown error", " (",
       static_cast<int>(result), "); ", remedyOf(result));
}

void Recorder::enable() {
  for (CUpti_ActivityKind kind : kKinds)
    check(api.cuptiActivityEnable(kind), "beginning to record");
}

void Recorder::disable() {
  for (CUpti_ActivityKind kind : kKinds)
    api.cuptiActivityDisable(kind);
}

void Recorder::giveBuffer(uint8_t **buffer, size_t *size, size_t *maxRecords) {
  *buffer = static_cast<uint8_t *>(std::aligned_alloc(64, kBufferBytes));
  *size = *buffer ? kBufferBytes : 0;
  *maxRecords = 0; // as many as there is room for
}

void Recorder::takeBuffer(CUcontext, uint32_t, uint8_t *buffer, size_t,
                          size_t validSize) {
  CUpti_Activity *activity = nullptr;
  {
    std::lock_guard<std::mutex> lock(self->mutex);
    while (self->recording &&
           self->api.cuptiActivityGetNextRecord(buffer, validSize, &activity) ==
               CUPTI_SUCCESS)
      self->take(activity);
  }
  std::free(buffer);
}

void Recorder::keep(Record record) {
  if (record.end <= record.begin) // not known
    return;
  if (records.size() < Trace::kMaxEvents)
    records.push_back(std::move(record));
  else
    ++lost;
}

void Recorder::take(CUpti_Activity *activity) {
  auto common = [](const auto *from, GpuWork work, const char *kernel) {
    Record record;
    record.name = "";
    record.begin = static_cast<int64_t>(from->start);
    record.end = static_cast<int64_t>(from->end);
    record.stream = from->streamId;
    record.graph = from->graphNodeId != 0;
    record.work = work;
    record.kernel = kernel ? kernel : "a kernel";
    return record;
  };
  switch (activity->kind) {
  case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
    auto *kernel = reinterpret_cast<CUpti_ActivityKernel10 *>(activity);
    return keep(common(kernel, GpuWork::Kernel, kernel->name));
  }
  case CUPTI_ACTIVITY_KIND_MEMCPY: {
    auto *copy = reinterpret_cast<CUpti_ActivityMemcpy6 *>(activity);
    return keep(common(copy, workOf(copy->copyKind), ""));
  }
  case CUPTI_ACTIVITY_KIND_MEMSET: {
    auto *fill = reinterpret_cast<CUpti_ActivityMemset4 *>(activity);
    return keep(common(fill, GpuWork::Fill, ""));
  }
  default:
    return;
  }
}

void Recorder::begin() {
  enable();
  check(api.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED),
        "giving out what it has recorded");
  std::lock_guard<std::mutex> lock(mutex);
  recording = true;
}

std::vector<GpuRecord> Recorder::end(Trace &trace) {
  check(api.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED),
        "giving out what it has recorded");
  disable();
  // Its clock is not ours.
  uint64_t theirs = 0;
  int64_t before = monotonicNanoseconds();
  check(api.cuptiGetTimestamp(&theirs), "telling the time");
  int64_t after = monotonicNanoseconds();
  int64_t offset = before + (after - before) / 2 - static_cast<int64_t>(theirs);
  std::lock_guard<std::mutex> lock(mutex);
  recording = false;
  std::vector<GpuRecord> result;
  for (const Record &record : records) {
    GpuRecord &moved = result.emplace_back(record);
    moved.name = trace.intern(demangled(record.kernel));
    moved.begin += offset;
    moved.end += offset;
  }
  records = {};
  if (lost > 0)
    trace.missing = concat(lost, " records of the GPU: give fewer "
                                 "--trace-steps");
  return result;
}

uint32_t Recorder::streamId(CUstream stream) {
  uint32_t id = 0;
  check(api.cuptiGetStreamIdEx(nullptr, stream, 0, &id), "naming a stream");
  return id;
}

} // namespace

bool Cupti::builtIn() { return true; }

// CUPTI asks the driver for more than its public functions.
std::unique_ptr<Cupti> Cupti::make() {
  if (!driver().cuGetExportTable)
    fail("the driver has no interface for profilers: install NVIDIA's");
  return std::make_unique<Recorder>();
}

#endif

} // namespace shardonnx::rt::cuda
