// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The folder that --save names: one folder for each checkpoint in it, written
// under another name and renamed when it is whole.

#ifndef SHARDONNX_RUNTIME_CHECKPOINT_FOLDER_H
#define SHARDONNX_RUNTIME_CHECKPOINT_FOLDER_H

#include "../support/File.h"
#include <cstdint>
#include <optional>
#include <string>

namespace shardonnx::rt {

/// step-00000010
std::string stepName(int64_t step);
constexpr const char *kPartial = ".partial"; // follows it while it is written
/// A link to the checkpoint with the lowest loss of an evaluation.
constexpr const char *kBestName = "best";

/// Returns `path` where it is a checkpoint itself, else the newest checkpoint
/// in it that is whole; warns of each newer one that is not. Nothing: there is
/// no checkpoint, whole or not.
std::optional<std::string> findCheckpoint(const std::string &path);

/// What is said where findCheckpoint finds nothing.
std::string noCheckpointIn(const std::string &path);

/// For the one rank that keeps the folder in order.
class SaveFolder {
public:
  /// Makes the folder, takes it for this run alone and removes what an earlier
  /// run left unfinished. Fails when it holds checkpoints of steps after
  /// `step`: they are of another run.
  SaveFolder(const std::string &path, int64_t step);
  /// Renames the finished checkpoint, which is linked to if it is the best so
  /// far, and removes older ones but `keep` (0: all stay) and the best.
  void publish(int64_t step, int64_t keep, bool best = false);
  /// Removes what there is of a checkpoint that cannot be finished.
  void discard(int64_t step);

  /// Removes whole checkpoints but the newest `keep` (0: all stay) up to `step`
  /// and the best.
  void prune(int64_t step, int64_t keep);

private:
  void linkBest(int64_t step);

  std::string path;
  MadeFolders made;
  FileDescriptor lock;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CHECKPOINT_FOLDER_H
