// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading a checkpoint. Opening it checks all that can be checked without
// reading the tensors: the index, that every file is there whole and belongs
// to this save, and that it holds what the index says.

#ifndef SHARDONNX_RUNTIME_CHECKPOINT_READER_H
#define SHARDONNX_RUNTIME_CHECKPOINT_READER_H

#include "../data/ArraySource.h"
#include "Index.h"
#include <map>

namespace shardonnx::rt {

class CheckpointReader {
public:
  explicit CheckpointReader(const std::string &folder);

  const std::string &path() const { return folder; }
  const Checkpoint &index() const { return checkpoint; }
  struct Place {
    size_t unit = 0;
    const Manifest::Param *param = nullptr;
  };
  /// Of the parameter with this name; null param: there is none.
  Place find(const std::string &name) const;
  /// Elements [begin, begin + count) of a unit's section.
  void read(size_t unit, StateArray array, int64_t begin, int64_t count,
            float *out);

private:
  void checkFile(size_t file);
  const Array &tensor(size_t file, size_t unit, StateArray array) const;
  ShxDType dtypeOf(size_t unit, StateArray array) const;
  const std::vector<Checkpoint::Slice> &slicesOf(size_t unit,
                                                 StateArray array) const;

  std::string folder;
  Checkpoint checkpoint;
  std::vector<Arrays> arrays; // [file]
  std::map<std::string, Place> places;
  std::vector<uint8_t> raw;
};

/// What a unit's section is stored as, the masters first.
std::vector<StateArray> arraysOf(bool trainable, int optimizerStates);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CHECKPOINT_READER_H
