// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading a checkpoint. Opening it checks all that can be checked without
// reading the tensors: the index, that every file is there whole and belongs
// to this save, and that it holds what the index says. verify() checks the
// rest.

#ifndef SHARDONNX_RUNTIME_CHECKPOINT_READER_H
#define SHARDONNX_RUNTIME_CHECKPOINT_READER_H

#include "../data/ArraySource.h"
#include "Index.h"
#include "StoredParts.h"
#include <map>
#include <memory>

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
  /// Of the parameter with one of these names, of which modules that share it
  /// have one each; null param: there is none.
  Place find(const std::vector<std::string> &names) const;
  /// Reads every `parts`-th file, from file `part` on, and fails where one is
  /// not as it was saved: whoever uses a checkpoint calls it first, for all of
  /// its files. Of version 1 the tensors alone can be checked; part 0 does.
  void verify(int part = 0, int parts = 1);
  /// Elements [begin, begin + count) of a unit's section; of scales, its
  /// blocks. Moments in int8 are decoded.
  void read(size_t unit, StateArray array, int64_t begin, int64_t count,
            float *out);
  /// Bytes [begin, begin + count) of an array's section, as they are stored.
  void readStored(size_t unit, StateArray array, int64_t begin, int64_t count,
                  uint8_t *out);
  ShxDType dtypeOf(size_t unit, StateArray array) const;
  /// Calls visit(begin, at, count): elements [at, at + count) of a whole
  /// parameter are what read() has from `begin` on; all of the interval.
  template <typename Visit>
  void forStored(const Place &place, const Interval &interval,
                 Visit visit) const {
    const Checkpoint::Unit &unit = checkpoint.units[place.unit];
    rt::forStored(*place.param, checkpoint.tensor,
                  unit.sectionLength(place.param->trainable), interval, visit);
  }

private:
  void openFile(size_t file);
  void verifyFile(size_t file);
  void verifyTensors();
  [[noreturn]] void damaged(const std::string &why) const;
  const Array &tensor(size_t file, size_t unit, StateArray array) const;
  void decode(size_t unit, StateArray moment, int64_t begin, int64_t count,
              float *out);
  uint64_t hashOf(size_t unit, StateArray array);
  /// As the array counts.
  std::vector<Checkpoint::Slice> slicesOf(size_t unit, StateArray array) const;

  std::string folder;
  Checkpoint checkpoint;
  std::vector<std::shared_ptr<File>> files;
  std::vector<Arrays> arrays; // [file]
  // By the names that the index gives them, and by those of tied ones.
  std::map<std::string, Place> places, aliases;
  std::vector<uint8_t> raw;
};

/// What a unit's section is stored as, the masters first.
std::vector<StateArray> arraysOf(bool trainable, int optimizerStates,
                                 ShxDType optimizerType);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CHECKPOINT_READER_H
