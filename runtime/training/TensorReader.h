// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading what a rank owns of a parameter out of a file that holds the whole
// tensor, in its own dtype and perhaps transposed.

#ifndef SHARDONNX_RUNTIME_TENSORREADER_H
#define SHARDONNX_RUNTIME_TENSORREADER_H

#include "../core/OwnedRange.h"
#include "../support/File.h"
#include <string>
#include <vector>

namespace shardonnx::rt {

class TensorReader {
public:
  /// Where a parameter's whole tensor lies. `dtype`: f32, f64, bf16 or f16;
  /// `transposed`: the file holds [columns, rows] of a parameter [rows,
  /// columns].
  struct Stored {
    const File *file;
    int64_t offset;
    std::string dtype;
    bool transposed;
    float addend = 0; // to every element
  };
  /// Bytes of an element; throws for a dtype that cannot be trained.
  static int64_t elementBytes(const std::string &dtype,
                              const std::string &parameter);
  void read(const OwnedRange &range, const Stored &stored);
  /// Of parts of one size, none of them transposed, which are the whole tensor
  /// one behind the other.
  void read(const OwnedRange &range, const std::vector<Stored> &parts);

private:
  void readRun(const Stored &stored, int64_t at, int64_t count);
  void readTransposed(const OwnedRange &range, const Stored &stored);

  std::vector<uint8_t> raw;
  std::vector<float> values;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_TENSORREADER_H
