// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where samples come from: one interface for token files and array files.

#ifndef SHARDONNX_RUNTIME_DATASOURCE_H
#define SHARDONNX_RUNTIME_DATASOURCE_H

#include "shardonnx/runtime/Manifest.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shardonnx::rt {

class DataSource {
public:
  virtual ~DataSource() = default;
  virtual int64_t samples() const = 0;
  /// Writes a sample's row of graph input `input`, in the input's dtype.
  /// Checks every id against the input's limit.
  virtual void read(int64_t sample, size_t input, void *row) = 0;
  /// The labels of a sample that count in the loss.
  virtual int64_t countLabels(int64_t sample) = 0;
  /// What the file has and the program does not read.
  virtual std::vector<std::string> unusedArrays() const { return {}; }
  /// How the labels of a file stand to its tokens, for people; "": nothing to
  /// say.
  virtual std::string describeLabels() const { return {}; }
  /// Of the file's bytes, those that checkSample reads of a sample.
  virtual int64_t checkedBytes(int64_t sample) const = 0;
  /// Memory held for the data (inflated arrays).
  virtual int64_t memoryBytes() const { return 0; }
};

/// Opens files, or patterns of their names, by their ending: their samples one
/// after the other. `tokenType` is u16 or u32 where it was given; `shiftLabels`
/// says whether labels of array files stand at the token that they repeat, not
/// at the one before, and is found out where it was not given.
std::unique_ptr<DataSource>
openData(const std::vector<std::string> &paths,
         const std::optional<std::string> &tokenType, const Manifest &manifest,
         std::optional<bool> shiftLabels = std::nullopt);

/// Fails where `read` would: at ids and labels of no row or class, numbers that
/// an input's type does not hold, and masks that the program does not read.
void checkSample(DataSource &data, const Manifest &manifest, int64_t sample);

/// Where the document of each token begins. A separator belongs to the document
/// that it ends; a sample that starts within a document starts it anew.
std::vector<int64_t> documentBegins(const std::vector<int64_t> &ids,
                                    int64_t count, int64_t separator);
/// Elements of one sample of an input.
int64_t rowElements(const Manifest::Input &input);
/// Whether an input's elements are floats rather than integers or truths.
bool wantsFloat(const Manifest::Input &input);
/// Whether the executable fills an input itself where the data does not, and
/// with what: masks are ones, token types zeros, positions count.
bool hasKnownValue(const Manifest::Input &input);
int64_t knownValue(const Manifest::Input &input, int64_t at);
/// Whether the input's dtype has this integer; any number is a truth.
bool holdsInteger(const Manifest::Input &input, int64_t value);
/// Write numbers in the input's dtype.
void storeFloat(const Manifest::Input &input, void *row, int64_t at,
                float value);
void storeInteger(const Manifest::Input &input, void *row, int64_t at,
                  int64_t value);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_DATASOURCE_H
