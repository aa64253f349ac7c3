// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A rank's threads and pinned memory stand on the processors' side of its GPU:
// copies from the other side share a link that is slower than PCI.

#ifndef SHARDONNX_RUNTIME_CUDA_NUMA_H
#define SHARDONNX_RUNTIME_CUDA_NUMA_H

#include <optional>
#include <string>

namespace shardonnx::rt::cuda {

/// The node of a PCI device, as the system has it in `devices`; nothing where
/// it has none.
std::optional<int>
numaNodeOf(const std::string &bus,
           const std::string &devices = "/sys/bus/pci/devices");

/// Keeps this thread, and those that it starts, on the processors of the node
/// of the GPU at `bus`, among those that it may use, and has memory allocated
/// there as long as there is some. Returns the node; nothing where there is one
/// node only, or none of its processors may be used, or SHARDONNX_NUMA=0.
std::optional<int> bindToGpu(const std::string &bus);

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_NUMA_H
