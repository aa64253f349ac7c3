// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The page of `inspect --html` and `plan --html`: one file that asks no network
// for anything. lib/Driver/Report has its sources.

#ifndef SHARDONNX_LIB_DRIVER_REPORTPAGE_H
#define SHARDONNX_LIB_DRIVER_REPORTPAGE_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace shardonnx {

/// The page around what --json prints. Nothing in `json` can end the element
/// that it stands in, whatever names it has.
std::string reportPage(llvm::StringRef json);

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_REPORTPAGE_H
