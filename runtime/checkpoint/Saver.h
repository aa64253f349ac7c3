// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Saving while training goes on. Between two steps a thread of each rank begins
// to write the slices that this rank owns; the next step's forward and backward
// run meanwhile, and its optimizer waits for a unit until that unit is written.
// When all ranks have written, rank 0 writes the index and renames the folder.
// A run that fails before that takes back what it has written: each rank its
// own file, and who is the last to do so the folder.

#ifndef SHARDONNX_RUNTIME_CHECKPOINT_SAVER_H
#define SHARDONNX_RUNTIME_CHECKPOINT_SAVER_H

#include "../comm/Exchange.h"
#include "../core/Engine.h"
#include "Folder.h"
#include "Index.h"
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace shardonnx::rt {

struct SaveRecord {
  int64_t step = 0, bytes = 0;
  /// From begin to end, and what of it training stood still; the slowest
  /// rank's.
  double ms = 0, stallMs = 0;
  uint64_t hash = 0;
  std::string path;
};

class Saver {
public:
  /// Every rank makes one, when training begins after step `step`.
  Saver(const Options &options, Engine &engine, Control &control,
        Exchange &exchange, const Topology &topology, int64_t step);
  ~Saver();
  Saver(const Saver &) = delete;
  Saver &operator=(const Saver &) = delete;

  /// What is trained on, for the index.
  void setData(const DataIdentity &identity) { data = identity; }
  bool savesAfter(int64_t step, bool last) const;
  /// Step `step` is to be saved, and its checkpoint stays until another is
  /// the best.
  void setBest(int64_t step) { best = step; }
  /// On every rank, between steps; `state` is that of the last one. Waits for
  /// the save before it and returns it.
  std::optional<SaveRecord> begin(const TrainState &state);
  /// On every rank, after each step. What was saved since, on rank 0.
  std::optional<SaveRecord> poll();
  /// On every rank: waits for what is not yet saved.
  std::optional<SaveRecord> finish();

private:
  /// A tensor of this rank's file.
  struct Piece {
    size_t unit;
    StateArray array;
    Interval interval;
    int64_t bytes;
  };
  /// What a rank tells the others when it has written.
  struct Report {
    uint64_t done = 0, trainableHash = 0, frozenHash = 0;
    uint64_t fileHash = 0;
    int64_t bytes = 0;
    double ms = 0, stallMs = 0;
  };
  void listPieces();
  std::string header() const;
  void writeFile();
  void writePiece(const Piece &piece, class StreamedFile &file);
  std::string path() const;
  void makeFolder();
  void abandon();
  void takeBack();
  void waitFor(size_t unit);
  std::string message() const;
  bool gather();
  void describe(const std::vector<std::string> &messages);
  void commit();
  std::optional<SaveRecord> published(bool wait);
  bool first() const { return engine.rank() == 0; }

  const Options &options;
  Engine &engine;
  Control &control;
  Exchange &exchange;
  const Topology topology;
  const Manifest &manifest;
  std::unique_ptr<SaveFolder> folder; // rank 0's
  std::string runId;
  int64_t best = 0; // step; 0: none
  std::optional<DataIdentity> data;
  std::vector<Piece> pieces;      // in the order of writing
  std::vector<Interval> owned[2]; // [trainable][unit] that are saved

  /// Of the save that is under way; the thread's, until it is done.
  TrainState state;
  bool isBest = false;
  std::string partial, id; // its folder
  Report report;
  std::string error;
  double began = 0;
  double gathered = 0,
         ended = 0; // rank 0's: all have written, all is published
  std::atomic<bool> writing = false; // until all ranks have written
  bool committing = false;           // rank 0, until it has published
  Checkpoint index;                  // rank 0's
  SaveRecord record;

  std::mutex mutex; // of what follows
  std::condition_variable changed;
  std::vector<bool> written; // [unit]
  bool threadDone = false;
  std::thread thread;

  std::timed_mutex entries; // of `partial` come and go
  bool abandoned = false;   // for good: none comes any more
};

/// The part of what this rank owns that it saves: the ranks together save each
/// element once.
Interval savedInterval(const Engine &engine, const Topology &topology,
                       size_t unit, bool trainable);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CHECKPOINT_SAVER_H
