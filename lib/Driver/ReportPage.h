// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The page of `inspect --html` and `plan --html`: one file that asks no network
// for anything. lib/Driver/Report has its sources.

#ifndef SHARDONNX_LIB_DRIVER_REPORTPAGE_H
#define SHARDONNX_LIB_DRIVER_REPORTPAGE_H

#include "shardonnx/Support/Diagnostics.h"

#include "llvm/ADT/StringRef.h"

#include <string>

namespace shardonnx {

/// Writes the page around what --json prints; to standard output where `path`
/// is `-`. Nothing in `json` can end the element that it stands in, whatever
/// names it has.
mlir::LogicalResult writeReportPage(llvm::StringRef json,
                                    const std::string &path,
                                    Diagnostics &diagnostics);

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_REPORTPAGE_H
