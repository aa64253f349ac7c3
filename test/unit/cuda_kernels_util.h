// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A device, a stream and a context without a program, and buffers in the
// device's memory between guard bytes: what the tests of the CUDA runtime's own
// kernels share.

#ifndef SHARDONNX_TEST_UNIT_CUDA_KERNELS_UTIL_H
#define SHARDONNX_TEST_UNIT_CUDA_KERNELS_UTIL_H

#include "../../runtime/cuda/driver/Memory.h"
#include "../../runtime/cuda/gemm/Gemm.h"
#include "../../runtime/cuda/launch/Launch.h"
#include "cpu_kernels_util.h"

namespace shardonnx::test {

// One for all tests of a program.
class CudaDevice {
public:
  static CudaDevice &get() {
    static CudaDevice device;
    return device;
  }
  rt::cuda::Context &context() { return ctx; }
  CUstream stream() const { return compute; }
  void synchronize() const { compute.synchronize("a test"); }

  // Library calls are made twice: to be prepared, then to be enqueued.
  template <typename Call> void call(Call body) {
    prepare(body);
    enqueue(body);
  }
  // May overwrite what the call writes.
  template <typename Call> void prepare(Call body) {
    ctx.mode = rt::cuda::Mode::Prepare;
    body();
    gemm.tune();
    synchronize();
  }
  template <typename Call> void enqueue(Call body) {
    ctx.mode = rt::cuda::Mode::Enqueue;
    body();
    synchronize();
  }

private:
  CudaDevice()
      : device(0),
        images(device, {shx_runtime_images,
                        shx_runtime_images + shx_runtime_image_tables}),
        gemm(ctx, "") {
    ctx.device = &device;
    ctx.compute = compute;
    ctx.runtimeImages = &images;
    ctx.gemm = &gemm;
  }

  rt::cuda::Device device;
  rt::cuda::Stream compute;
  rt::cuda::Images images;
  rt::cuda::Context ctx;
  rt::cuda::Gemm gemm;
};

// Bytes of the device between guards, `offset` bytes behind a multiple of 256.
class DeviceBytes {
public:
  explicit DeviceBytes(int64_t size, int64_t offset = 0)
      : size(size), before(kGuard + offset),
        memory(before + size + kGuard, "a test") {
    std::vector<uint8_t> guards(size_t(memory.size()), kGuardByte);
    rt::cuda::writeNow(memory.address(), guards.data(), memory.size(),
                       "writing guards");
  }
  void *data() const { return memory.data() + before; }

  void upload(const void *from) const {
    rt::cuda::writeNow(rt::cuda::deviceAddress(data()), from, size,
                       "uploading");
  }
  void download(void *to) const {
    if (size > 0)
      rt::cuda::check(rt::cuda::driver().cuMemcpyDtoH(
                          to, rt::cuda::deviceAddress(data()), size_t(size)),
                      "downloading");
  }
  bool intact() const {
    std::vector<uint8_t> all(size_t(memory.size()));
    rt::cuda::check(rt::cuda::driver().cuMemcpyDtoH(
                        all.data(), memory.address(), all.size()),
                    "reading guards");
    auto isGuard = [](uint8_t byte) { return byte == kGuardByte; };
    return std::all_of(all.begin(), all.begin() + before, isGuard) &&
           std::all_of(all.end() - kGuard, all.end(), isGuard);
  }

  const int64_t size;

private:
  static constexpr int64_t kGuard = 256;
  static constexpr uint8_t kGuardByte = 0xff; // floats: NaN
  int64_t before;
  rt::cuda::DeviceMemory memory;
};

// A host buffer's twin.
class DeviceBuffer {
public:
  explicit DeviceBuffer(const Buffer &host, int64_t offset = 0)
      : dtype(host.dtype), count(host.size()),
        bytes(host.size() * bytesOf(host.dtype), offset) {
    upload(host);
  }
  void upload(const Buffer &host) const { bytes.upload(host.data()); }
  void *data() const { return bytes.data(); }
  void download(Buffer &host) const {
    bytes.download(host.data());
    EXPECT_TRUE(bytes.intact());
  }
  Buffer download() const {
    Buffer host(dtype, count);
    download(host);
    return host;
  }

private:
  int32_t dtype;
  int64_t count;
  DeviceBytes bytes;
};

template <typename T> class DeviceValue {
public:
  explicit DeviceValue(T value = T()) : bytes(sizeof(T)) {
    bytes.upload(&value);
  }
  T *data() const { return static_cast<T *>(bytes.data()); }
  T get() const {
    T value;
    bytes.download(&value);
    EXPECT_TRUE(bytes.intact());
    return value;
  }

private:
  DeviceBytes bytes;
};

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_UNIT_CUDA_KERNELS_UTIL_H
