// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Device.h.

#include "Device.h"
#include <cctype>

namespace shardonnx::rt::cuda {
namespace {

struct Peak {
  const char *part; // of the device's name
  double flops;
};

// Dense bf16 on tensor cores, from the makers' data sheets. The first part
// that a name has counts.
constexpr Peak kPeaks[] = {
    {"H100 PCIe", 756e12}, {"H100 NVL", 835e12}, {"H100", 989e12},
    {"H200 NVL", 835e12},  {"H200", 989e12},     {"H800", 989e12},
    {"GH200", 989e12},     {"H20", 148e12},      {"B200", 2250e12},
    {"A100", 312e12},      {"A800", 312e12},     {"A30", 165e12},
    {"L40S", 362e12},      {"L4", 121e12},
};

// The part stands by itself: "L4" is not in "L40", "H20" not in "H200".
bool hasPart(const std::string &name, const std::string &part) {
  for (size_t at = name.find(part); at != std::string::npos;
       at = name.find(part, at + 1)) {
    size_t end = at + part.size();
    bool begins =
        at == 0 || !std::isalnum(static_cast<unsigned char>(name[at - 1]));
    bool ends = end == name.size() ||
                !std::isalnum(static_cast<unsigned char>(name[end]));
    if (begins && ends)
      return true;
  }
  return false;
}

} // namespace

std::optional<double> peakFlops(const std::string &deviceName) {
  for (const Peak &peak : kPeaks)
    if (hasPart(deviceName, peak.part))
      return peak.flops;
  return std::nullopt;
}

static int deviceCount() {
  int count = 0;
  check(driver().cuDeviceGetCount(&count), "counting the GPUs");
  return count;
}

void requireDevices() {
  if (deviceCount() == 0)
    fail("no GPU that CUDA can use on this machine (CUDA_VISIBLE_DEVICES may "
         "hide it): this program needs a GPU; compile with --target=cpu to "
         "train here");
}

// Launchers may show each rank its own GPU alone, or all of them to all. Ranks
// that then share one are found when the ranks have met.
Device::Device(int localRank) {
  requireDevices();
  check(driver().cuDriverGetVersion(&version), "asking for the driver's "
                                               "version");
  if (version < kOldestDriver)
    fail("the NVIDIA driver of this machine brings CUDA ", version / 1000, ".",
         version % 1000 / 10,
         ", this program needs CUDA 13.0: install driver "
         "580 or later, or NVIDIA's cuda-compat-13-0 for data-center GPUs");
  int index = localRank % deviceCount();
  check(driver().cuDeviceGet(&device, index), "taking GPU ", index);
  char text[256] = {};
  check(driver().cuDeviceGetName(text, sizeof(text) - 1, device),
        "asking for the GPU's name");
  deviceName = text;
  capability[0] = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  capability[1] = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  if (capability[0] < kOldestMajor)
    fail("the GPU '", deviceName, "' has compute capability ", capability[0],
         ".", capability[1], ", this program needs ", kOldestMajor,
         ".0 or later");
  processors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  sharedBytes =
      attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  check(driver().cuDevicePrimaryCtxRetain(&handle, device),
        "making a context on '", deviceName, "'");
  makeCurrent();
}

Device::~Device() {
  if (handle)
    driver().cuDevicePrimaryCtxRelease(device);
}

void Device::makeCurrent() const {
  check(driver().cuCtxSetCurrent(handle), "entering the GPU's context");
}

std::string Device::uuid() const {
  CUuuid id{};
  check(driver().cuDeviceGetUuid(&id, device), "asking for the GPU's identity");
  return std::string(id.bytes, sizeof(id.bytes));
}

std::string Device::pciBus() const {
  char text[32] = {};
  check(driver().cuDeviceGetPCIBusId(text, sizeof(text) - 1, device),
        "asking for the GPU's PCI bus");
  std::string bus = text;
  for (char &c : bus)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return bus;
}

Device::Memory Device::memory() const {
  size_t free = 0, total = 0;
  check(driver().cuMemGetInfo(&free, &total), "asking for the GPU's memory");
  return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

int Device::attribute(CUdevice_attribute which) const {
  int value = 0;
  check(driver().cuDeviceGetAttribute(&value, which, device),
        "asking for the GPU's attribute ", static_cast<int>(which));
  return value;
}

} // namespace shardonnx::rt::cuda
