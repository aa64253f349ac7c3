// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What `plan --calibrate` trains: small transformers, written in ONNX's text.

#ifndef SHARDONNX_LIB_DRIVER_CALIBRATIONMODEL_H
#define SHARDONNX_LIB_DRIVER_CALIBRATIONMODEL_H

#include <cstdint>
#include <string>

namespace shardonnx {

struct CalibrationModel {
  int64_t batch, seq, hidden, heads, inner, vocab;
  bool gated; // RMS norms and a gated feed-forward; else layer norms and GELU
};

/// Two blocks. Weights are named and nowhere: a run draws them.
std::string textOf(const CalibrationModel &model);

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_CALIBRATIONMODEL_H
