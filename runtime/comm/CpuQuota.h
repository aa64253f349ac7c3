// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How much of its cores a container may use: `docker run --cpus 2`, limits of
// Kubernetes, CPUQuota of systemd. More threads than that are all stopped when
// the quota of a period is spent.

#ifndef SHARDONNX_RUNTIME_CPUQUOTA_H
#define SHARDONNX_RUNTIME_CPUQUOTA_H

#include <optional>
#include <string>

namespace shardonnx::rt {

/// Cores, of the text of a cpu.max (`QUOTA PERIOD`, in microseconds); none when
/// it sets no limit.
std::optional<double> coresOfQuota(const std::string &text);

/// The least quota of this process's control groups (version 2, and the outer
/// one of version 1); none when there is none.
std::optional<double> cpuQuota();

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPUQUOTA_H
