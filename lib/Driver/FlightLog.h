// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a run that ended badly left of its ranks' last collectives
// (`--flight-record` of a training executable), for people.

#ifndef SHARDONNX_LIB_DRIVER_FLIGHTLOG_H
#define SHARDONNX_LIB_DRIVER_FLIGHTLOG_H

#include "mlir/Support/LLVM.h"
#include "shardonnx/Support/Diagnostics.h"

#include <string>

namespace shardonnx {

/// By how the file begins.
bool isFlightRecord(mlir::StringRef path);

/// Prints who was in what, and each rank's collectives, the last ones last;
/// with `json` the file as it is.
mlir::LogicalResult printFlightRecord(const std::string &path, bool json,
                                      mlir::raw_ostream &out,
                                      Diagnostics &diagnostics);

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_FLIGHTLOG_H
