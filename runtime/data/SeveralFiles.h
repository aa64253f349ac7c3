// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Several data files as one: the samples of the first, then those of the next.
// No sample crosses the end of a file.

#ifndef SHARDONNX_RUNTIME_SEVERALFILES_H
#define SHARDONNX_RUNTIME_SEVERALFILES_H

#include "DataSource.h"
#include <vector>

namespace shardonnx::rt {

class SeveralFiles : public DataSource {
public:
  /// At least one; each has samples.
  explicit SeveralFiles(std::vector<std::unique_ptr<DataSource>> files);
  int64_t samples() const override { return ends.back(); }
  void read(int64_t sample, size_t input, void *row) override;
  int64_t countLabels(int64_t sample) override;
  int64_t checkedBytes(int64_t sample) const override;
  std::vector<std::string> unusedArrays() const override;
  std::string describeLabels() const override {
    return files.front()->describeLabels();
  }
  int64_t memoryBytes() const override;

private:
  /// The file of a sample, and its number there.
  struct Place {
    DataSource &file;
    int64_t sample;
  };
  Place find(int64_t sample) const;

  std::vector<std::unique_ptr<DataSource>> files;
  std::vector<int64_t> ends; // samples up to the end of each file
};

/// What each word names: a file, or where there is none of that name a pattern
/// as in "shards/train_*.bin", whose files come in the order of their names.
std::vector<std::string> expandPatterns(const std::vector<std::string> &words);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_SEVERALFILES_H
