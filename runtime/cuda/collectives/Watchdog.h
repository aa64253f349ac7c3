// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Knows what the GPU is at, so that a hang ends with a sentence. Every
// collective is put between two marks: values of four bytes that the queue
// writes into host memory, and that say which collective it has begun and which
// it has ended. Neither kernels nor copy engines have a part in that. Marks are
// ordinary work of the queue, so a captured graph has them, too. A thread reads
// them; it calls nothing of CUDA, which may hang with the GPU.

#ifndef SHARDONNX_RUNTIME_CUDA_WATCHDOG_H
#define SHARDONNX_RUNTIME_CUDA_WATCHDOG_H

#include "../../comm/Control.h"
#include "../driver/Memory.h"
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace shardonnx::rt::cuda {

class Watchdog {
public:
  /// `asyncError` is asked often: what is wrong with a communicator, or "".
  Watchdog(Control &control, std::function<std::string()> asyncError);
  ~Watchdog();
  Watchdog(const Watchdog &) = delete;
  Watchdog &operator=(const Watchdog &) = delete;

  /// A function is under way from now until the stream that is given to
  /// `endFunction` is there; its collectives are counted anew. `endFunction` is
  /// never captured.
  void beginFunction(const char *function, int64_t step);
  void endFunction(CUstream stream);

  /// The function's next collective, for `begin`.
  using Station = uint32_t;
  Station station(Activity activity, size_t unit, size_t queue, int64_t bytes);
  void begin(CUstream stream, size_t queue, Station station);
  void end(CUstream stream, size_t queue);

  /// Gathers, reductions, replicas, and axes of the mesh.
  static constexpr size_t kQueues = 4;

private:
  struct Collective {
    Activity activity = Activity::Running;
    size_t unit = 0, queue = 0;
    int64_t bytes = 0;
  };
  using Stations = std::vector<Station>; // of a function, as they are issued
  struct Expected {
    uint32_t sequence;
    std::string function;
    int64_t step;
  };
  /// What the GPU writes, each word on a line of its own.
  struct alignas(64) Word {
    uint32_t value;
  };
  uint32_t read(size_t word) const;
  void write(CUstream stream, size_t word, uint32_t value);
  void watch();
  bool outstanding(uint32_t done, Expected &first);
  void reportHang(const Expected &first);
  void checkAsyncError(double &since);
  void record(const std::vector<uint32_t> &words);
  uint64_t issue(const Collective &one, int64_t step);
  void recordUpTo(const Expected &function, size_t queue, size_t end);

  Control &control;
  std::function<std::string()> asyncError;
  PinnedMemory words; // [queue] what runs, 0: nothing; [kQueues] sequence
  std::mutex mutex;   // of what follows
  std::vector<Collective> collectives;      // by station; 0 is none
  std::map<std::string, Stations> stations; // by function
  /// For the flight recorder: the function that the GPU is in, how many of its
  /// collectives have been noted, and the number of the one that runs on each
  /// queue.
  uint32_t noted = 0;
  size_t progress[kQueues] = {};
  uint64_t running[kQueues] = {};
  std::string function;
  size_t ordinal = 0;
  std::deque<Expected> expected;
  uint32_t sequence = 0;
  std::atomic<bool> stopping{false};
  std::thread thread;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_WATCHDOG_H
