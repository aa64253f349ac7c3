// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stream capture and graphs.

#include "Driver.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

using namespace shardonnx::emulator;

bool shardonnx::emulator::shuffling() {
  static const bool asked =
      std::getenv("SHARDONNX_EMULATOR_SHUFFLE") != nullptr;
  return asked;
}

uint64_t shardonnx::emulator::shuffleNumber() {
  static std::mutex mutex;
  static std::mt19937_64 generator([] {
    const char *seed = std::getenv("SHARDONNX_EMULATOR_SHUFFLE");
    return seed ? std::strtoull(seed, nullptr, 10) : 0;
  }());
  std::lock_guard<std::mutex> lock(mutex);
  return generator();
}

void shardonnx::emulator::shuffleDelay() {
  if (!shuffling())
    return;
  // Most work follows at once; some comes late by more than most work takes.
  uint64_t number = shuffleNumber();
  if (number % 4 == 0)
    std::this_thread::sleep_for(std::chrono::microseconds(number / 4 % 3000));
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  if (CUresult result = enterStream(stream))
    return result;
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  if (stream->capture)
    return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->mode = mode;
  capture->owner = std::this_thread::get_id();
  capture->id = driver.nextCapture++;
  capture->graph = std::make_unique<CUgraph_st>();
  capture->streams = {stream};
  stream->capture = capture;
  stream->tips.clear();
  driver.captures.insert(capture);
  return CUDA_SUCCESS;
}

/// Are all nodes of the capture behind the origin's last ones?
static std::string findUnjoined(const Capture &capture) {
  const std::vector<GraphNode> &nodes = capture.graph->nodes;
  std::vector<bool> reached(nodes.size());
  std::vector<size_t> stack(capture.origin->tips.begin(),
                            capture.origin->tips.end());
  while (!stack.empty()) {
    size_t node = stack.back();
    stack.pop_back();
    if (reached[node])
      continue;
    reached[node] = true;
    stack.insert(stack.end(), nodes[node].after.begin(),
                 nodes[node].after.end());
  }
  for (size_t node = 0; node < nodes.size(); ++node)
    if (!reached[node])
      return nodes[node].name;
  return "";
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  *graph = nullptr;
  if (CUresult result = enterStream(stream))
    return result;
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  std::shared_ptr<Capture> capture = stream->capture;
  if (!capture)
    return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) {
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->owner != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  CUresult result = CUDA_SUCCESS;
  std::string unjoined = findUnjoined(*capture);
  if (capture->invalid) {
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (!unjoined.empty()) {
    say("the capture ends before '" + unjoined +
        "' on another stream was joined into the stream it began on");
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  driver.captures.erase(capture);
  for (CUstream taken : capture->streams) {
    taken->capture = nullptr;
    taken->tips.clear();
  }
  std::unique_ptr<CUgraph_st> done = std::move(capture->graph);
  if (result)
    return result;
  *graph = done.release();
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  if (CUresult result = enterStream(stream))
    return result;
  std::lock_guard<std::recursive_mutex> lock(Driver::get().mutex);
  *status = !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

static bool isKernel(const GraphNode &node) {
  return node.name.compare(0, 7, "kernel ") == 0 ||
         node.name == "cublasLtMatmul";
}

bool shardonnx::emulator::isBehindKernel(const CUstream_st &stream) {
  return stream.tips.size() == 1 &&
         isKernel(stream.capture->graph->nodes[*stream.tips.begin()]);
}

static void tellDependencies(const CUstream_st &stream,
                             const CUgraphNode **nodes,
                             const CUgraphEdgeData **edges, size_t &count) {
  Capture &capture = *stream.capture;
  capture.dependencies.clear();
  for (size_t tip : stream.tips) {
    CUgraphNode_st &node = capture.told[tip];
    node.type = isKernel(capture.graph->nodes[tip]) ? CU_GRAPH_NODE_TYPE_KERNEL
                                                    : CU_GRAPH_NODE_TYPE_EMPTY;
    capture.dependencies.push_back(&node);
  }
  count = capture.dependencies.size();
  capture.edges.assign(count, {});
  if (nodes)
    *nodes = capture.dependencies.data();
  if (edges)
    *edges = capture.edges.data();
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status,
                                cuuint64_t *id, CUgraph *graph,
                                const CUgraphNode **nodes,
                                const CUgraphEdgeData **edges, size_t *count) {
  if (CUresult result = cuStreamIsCapturing(stream, status))
    return result;
  std::lock_guard<std::recursive_mutex> lock(Driver::get().mutex);
  if (id && stream->capture)
    *id = stream->capture->id;
  if (graph && stream->capture)
    *graph = stream->capture->graph.get();
  if (stream->capture && count)
    tellDependencies(*stream, nodes, edges, *count);
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  *type = node->type;
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  if (nodes) {
    say("cuGraphGetNodes: only counting is emulated");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  *count = graph->nodes.size();
  return CUDA_SUCCESS;
}

CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned) {
  std::FILE *file = std::fopen(path, "w");
  if (!file)
    return CUDA_ERROR_OPERATING_SYSTEM;
  std::fprintf(file, "digraph graph {\n");
  for (size_t node = 0; node < graph->nodes.size(); ++node) {
    const GraphNode &one = graph->nodes[node];
    std::string priority =
        one.priority ? " priority " + std::to_string(*one.priority) : "";
    std::fprintf(file, "  n%zu [label=\"%s%s\"];\n", node, one.name.c_str(),
                 priority.c_str());
    for (size_t before : one.after)
      std::fprintf(file, "  n%zu -> n%zu%s;\n", before, node,
                   one.programmatic ? " [label=\"programmatic\"]" : "");
  }
  std::fprintf(file, "}\n");
  return std::fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult cuGraphDestroy(CUgraph graph) {
  delete graph;
  return CUDA_SUCCESS;
}

/// Captured nodes only come after ones captured before them.
static std::shared_ptr<const Reachability>
findReachability(const CUgraph_st &graph) {
  size_t count = graph.nodes.size();
  auto before = std::make_shared<Reachability>(count, std::vector<bool>(count));
  for (size_t node = 0; node < count; ++node)
    for (size_t after : graph.nodes[node].after) {
      (*before)[after][node] = true;
      for (size_t k = 0; k < after; ++k)
        if ((*before)[k][after])
          (*before)[k][node] = true;
    }
  return before;
}

/// Without the flag all nodes run at the priority of the stream that the graph
/// is launched into, which the real driver does not tell.
static bool losesPriorities(const CUgraph_st &graph, unsigned long long flags) {
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)
    return false;
  std::set<int> priorities;
  for (const GraphNode &node : graph.nodes)
    if (node.priority)
      priorities.insert(*node.priority);
  return priorities.size() > 1;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph,
                                     unsigned long long flags) {
  // What an executable graph keeps of a node on the device.
  constexpr size_t kNodeBytes = 2 << 10;
  if (CUresult result = enter())
    return result;
  if (losesPriorities(*graph, flags)) {
    say("a graph of streams of several priorities is made without "
        "CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY: all of it would run "
        "at one");
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::shared_ptr<void> memory =
      reserveMemory(currentContext()->device, graph->nodes.size() * kNodeBytes,
                    "an executable graph");
  if (!memory)
    return CUDA_ERROR_OUT_OF_MEMORY;
  auto *created = new CUgraphExec_st;
  created->memory = std::move(memory);
  auto copy = std::make_shared<CUgraph_st>(*graph);
  if (raceChecking())
    copy->order = findReachability(*copy);
  created->graph = copy;
  std::lock_guard<std::recursive_mutex> lock(Driver::get().mutex);
  Driver::get().executables.insert(created);
  *executable = created;
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *executable, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
  params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return cuGraphInstantiateWithFlags(executable, graph, params->flags);
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
  std::lock_guard<std::recursive_mutex> lock(Driver::get().mutex);
  if (!Driver::get().executables.erase(executable))
    return CUDA_ERROR_INVALID_HANDLE;
  delete executable;
  return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec executable, CUstream stream) {
  if (CUresult result = enterStream(stream))
    return result;
  std::lock_guard<std::recursive_mutex> lock(Driver::get().mutex);
  return Driver::get().executables.count(executable)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  if (CUresult result = enterStream(stream))
    return result;
  std::lock_guard<std::recursive_mutex> lock(Driver::get().mutex);
  if (!Driver::get().executables.count(executable))
    return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) {
    say("child graphs are not emulated");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  CUctx_st *context = stream->context;
  return enqueue(
      stream, "graph",
      [graph = executable->graph, running = executable->running, context] {
        std::lock_guard<std::mutex> alone(*running);
        runGraph(*graph, context);
      });
}
