// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SLURM's short forms: lists of hosts (`gpu[01-04,7],login`) and of counts for
// each machine (`4(x2),3`).

#ifndef SHARDONNX_RUNTIME_NODELIST_H
#define SHARDONNX_RUNTIME_NODELIST_H

#include <optional>
#include <string>

namespace shardonnx::rt {

/// The first host of the list; none when it is not one.
std::optional<std::string> firstHost(const std::string &list);

/// What the list says of the machine `node` (from 0); none when it says
/// nothing.
std::optional<int> countOfNode(const std::string &list, int node);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_NODELIST_H
