// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The header of NumPy's .npy files: the reader of .npz, `shardonnx eval` and
// the program that it starts share it.

#ifndef SHARDONNX_RUNTIME_NPY_H
#define SHARDONNX_RUNTIME_NPY_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardonnx {

constexpr int64_t kLargestNpyHeader = 1 << 20;

struct NpyHeader {
  std::string descr; // NumPy's word for the dtype, as "<f4"
  std::vector<int64_t> shape;
  bool fortranOrder = false;
  int64_t length = 0; // of the header; the elements follow
};

/// Reads the header that `bytes`, the beginning of a file, starts with. None if
/// they are no such header; `error` then says why.
std::optional<NpyHeader> parseNpyHeader(std::string_view bytes,
                                        std::string &error);

/// The header of a row-major array, with its padding.
std::string makeNpyHeader(std::string_view descr,
                          const std::vector<int64_t> &shape);

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_NPY_H
