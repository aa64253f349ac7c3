// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pool's entry points of the ABI, scratch and trace.

#include "Pool.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sys/mman.h>
#include <unistd.h>

namespace shardonnx::rt {
namespace {

KernelTrace trace = nullptr;
// What the pool's threads are at work on, if there is a trace.
const TraceScope *running = nullptr;

int64_t nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t(now.tv_sec) * 1000000000 + now.tv_nsec;
}

// A mapping whose last page is out of bounds, the scratch ending before it.
class Scratch {
public:
  ~Scratch() { release(); }

  void *get(int64_t bytes) {
    if (bytes > size)
      grow(bytes);
    return data;
  }

private:
  void grow(int64_t bytes) {
    release();
    int64_t page = sysconf(_SC_PAGESIZE);
    int64_t room = (bytes + page - 1) / page * page;
    void *at = mmap(nullptr, size_t(room + page), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED ||
        mprotect(static_cast<char *>(at) + room, size_t(page), PROT_NONE)) {
      std::fprintf(stderr,
                   "shardonnx: error: no memory for %lld bytes of a thread's "
                   "scratch; use fewer threads or a smaller batch\n",
                   static_cast<long long>(bytes));
      std::exit(1);
    }
    mapping = at;
    mapped = room + page;
    size = (bytes + 63) / 64 * 64;
    data = static_cast<char *>(at) + room - size;
  }

  void release() {
    if (mapping)
      munmap(mapping, size_t(mapped));
    mapping = nullptr;
    size = 0;
  }

  void *mapping = nullptr, *data = nullptr;
  int64_t mapped = 0, size = 0;
};

} // namespace

void *threadScratch(int64_t bytes) {
  static thread_local Scratch scratch;
  return scratch.get(bytes);
}

void setKernelTrace(KernelTrace newTrace) { trace = newTrace; }

void setPoolThreads(int threads) { omp_set_num_threads(threads); }

TraceScope::TraceScope(ShxContext *context, const char *name)
    : context(context), name(name) {
  if (trace)
    enter();
}

// gemm BATCHxMxKxN, as exec's launches are called.
TraceScope::TraceScope(ShxContext *context, const ShxGemm &product)
    : context(context), name(text) {
  if (!trace)
    return;
  size_t at = 0;
  auto add = [&](const char *before, int64_t size) {
    int length = std::snprintf(text + at, sizeof(text) - at, "%s%lld", before,
                               static_cast<long long>(size));
    at = std::min(at + size_t(length), sizeof(text) - 1);
  };
  const char *before = "gemm ";
  for (int32_t d = 0; d < product.batchRank; ++d, before = "x")
    add(before, product.batch[d]);
  for (int64_t size : {product.m, product.k, product.n}) {
    add(before, size);
    before = "x";
  }
  enter();
}

void TraceScope::enter() {
  outer = running;
  running = this;
  begin = nanoseconds();
}

TraceScope::~TraceScope() {
  if (begin == 0)
    return;
  running = outer;
  if (trace)
    trace(context, name, kWholeCall, begin, nanoseconds());
}

ThreadSpan::ThreadSpan() {
  if (trace && running)
    begin = nanoseconds();
}

ThreadSpan::~ThreadSpan() {
  if (begin != 0)
    trace(running->context, running->name, omp_get_thread_num(), begin,
          nanoseconds());
}

} // namespace shardonnx::rt

using namespace shardonnx::rt;

void shx_launch(ShxContext *ctx, ShxKernel kernel, void *const *args,
                int64_t count, int64_t grain, const char *name) {
  TraceScope scope(ctx, name);
  parallelRange(count, grain > 0 ? grain : 1,
                [&](int64_t begin, int64_t end) { kernel(args, begin, end); });
}

void shx_zero(ShxContext *ctx, void *dst, int64_t bytes) {
  TraceScope scope(ctx, "zero");
  parallelRange(bytes, 1 << 16, [&](int64_t begin, int64_t end) {
    std::memset(static_cast<char *>(dst) + begin, 0, size_t(end - begin));
  });
}
