// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What lies behind the driver API's handles.

#ifndef SHARDONNX_TEST_CUDA_EMULATOR_DRIVER_H
#define SHARDONNX_TEST_CUDA_EMULATOR_DRIVER_H

#include "machine/DeviceMemory.h"
#include "machine/Machine.h"
#include <chrono>
#include <condition_variable>
#include <cuda.h>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace shardonnx::emulator {

/// A piece of a stream's work; throws Fault.
using Work = std::function<void()>;

/// What an event waits for: one record of it.
struct Completion {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::chrono::steady_clock::time_point time;

  void finish();
  void wait();
  bool isDone();
};

struct GraphNode {
  std::string name;
  Work work;
  std::vector<size_t> after;
  /// Of the stream that it was captured from, for what runs on processors.
  std::optional<int> priority = {};
  /// It may begin before the node ahead of it has ended.
  bool programmatic = false;
};

/// Makes work the current one of the thread, for looking for races.
Work inOrder(Order order, Work work);

} // namespace shardonnx::emulator

// The driver's opaque handle types.

struct CUctx_st {
  int device = 0;
  /// The first error a kernel made; every later call returns it.
  CUresult error = CUDA_SUCCESS;
  int retained = 0;
  /// Does what calls without a stream leave unfinished when they return.
  CUstream unfinished = nullptr;
};

struct CUmod_st {
  CUctx_st *context = nullptr;
  std::unordered_map<std::string, std::unique_ptr<CUfunc_st>> functions;
  struct Global {
    CUdeviceptr address;
    size_t bytes;
  };
  std::unordered_map<std::string, Global> globals;
  std::shared_ptr<void> memory; // of its code
};

struct CUfunc_st {
  CUmod_st *module = nullptr;
  std::shared_ptr<shardonnx::emulator::Program> program;
  int maxDynamicShared = 48 << 10;
};

struct CUgraph_st {
  std::vector<shardonnx::emulator::GraphNode> nodes;
  /// Set when races are looked for.
  std::shared_ptr<const shardonnx::emulator::Reachability> order;
};

struct CUgraphNode_st {
  CUgraphNodeType type;
};

struct CUgraphExec_st {
  std::shared_ptr<const CUgraph_st> graph;
  /// What it takes of its device beside what the program has asked for.
  std::shared_ptr<void> memory;
  /// Launches of one executable graph do not overlap.
  std::shared_ptr<std::mutex> running = std::make_shared<std::mutex>();
};

namespace shardonnx::emulator {

/// A capture in progress, shared by the streams that take part.
struct Capture {
  CUstream origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id owner;
  bool invalid = false;
  uint64_t id = 0;
  std::unique_ptr<CUgraph_st> graph;
  std::set<CUstream> streams;
  /// What cuStreamGetCaptureInfo has told of nodes.
  std::map<size_t, CUgraphNode_st> told;
  std::vector<CUgraphNode> dependencies;
  std::vector<CUgraphEdgeData> edges;
};

} // namespace shardonnx::emulator

struct CUstream_st {
  CUctx_st *context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  /// What of all timelines comes before the next work; its own is `timeline`.
  shardonnx::emulator::Clock clock;
  uint32_t timeline = 0;
  std::shared_ptr<shardonnx::emulator::Capture> capture;
  /// Nodes that the next captured one comes after.
  std::set<size_t> tips;

  std::thread thread;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<shardonnx::emulator::Work> queue;
  bool busy = false, closing = false;

  void loop();
  void push(shardonnx::emulator::Work work);
  void drain();
  bool idle();
};

struct CUevent_st {
  unsigned flags = 0;
  std::shared_ptr<shardonnx::emulator::Completion> last;
  shardonnx::emulator::Clock clock;
  /// Set while its last record was captured.
  std::weak_ptr<shardonnx::emulator::Capture> capture;
  bool captured = false;
  std::set<size_t> tips;
};

namespace shardonnx::emulator {

/// Everything process-wide, behind one lock (`lock` is taken by the API).
struct Driver {
  static Driver &get();

  std::recursive_mutex mutex;
  bool initialised = false;
  int devices = 1;
  /// The machine's number of each device of the process.
  std::vector<int> visible;
  std::vector<std::unique_ptr<CUctx_st>> primary;
  std::set<CUstream> streams;
  std::set<CUevent> events;
  std::set<CUmodule> modules;
  std::set<CUgraphExec> executables;
  std::set<std::shared_ptr<Capture>> captures;
  uint64_t nextCapture = 1;
  /// What the host has waited for. Timeline 0 is the host's own.
  Clock host = {0};
  uint32_t timelines = 1;
};

/// One line on stderr.
void say(const std::string &message);

/// The calling thread's context; null without one.
CUctx_st *currentContext();
std::vector<CUctx_st *> &contextStack();
bool &insideHostFunction();

/// Checks that every call makes: initialised, a context, no sticky error.
CUresult enter();
/// The same for calls that a capture forbids.
CUresult enterUnsafe(const char *name);
/// The stream, or an error for the default stream and for unknown ones.
CUresult enterStream(CUstream stream);

/// The host has seen all of a stream's work so far.
void seeStream(CUstream stream);

/// Enqueues or captures.
CUresult enqueue(CUstream stream, std::string name, Work work);
void failContext(CUctx_st *context, const Fault &fault);

/// Runs it, and tells who observes. `node`: the graph's, from 1 on, else 0.
void runObserved(const std::string &name, uint32_t stream, uint64_t node,
                 const Work &work);

/// Waits for all streams of the context (`all`), or its blocking ones.
void drainStreams(CUctx_st *context, bool all);

/// Runs a graph's nodes, those that are ready side by side.
void runGraph(const CUgraph_st &graph, CUctx_st *context);

/// A random pause, if SHARDONNX_EMULATOR_SHUFFLE asks for them.
void shuffleDelay();
bool shuffling();
uint64_t shuffleNumber();

/// Whether the stream's next captured node comes behind one kernel alone.
bool isBehindKernel(const CUstream_st &stream);

CUresult loadModule(CUmod_st &module, const char *text);

/// Memory that the driver or a library takes for itself, until the last copy is
/// gone; null when the device has no more.
std::shared_ptr<void> reserveMemory(int device, size_t bytes,
                                    const std::string &what);

} // namespace shardonnx::emulator

#endif
