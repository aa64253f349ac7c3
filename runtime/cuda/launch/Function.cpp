// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Function.h.

#include "Function.h"
#include "../../support/Error.h"
#include "../driver/CallTrace.h"

namespace shardonnx::rt::cuda {

Function::Function(Context &context, std::string name,
                   std::function<void()> issue)
    : context(context), name(std::move(name)), issue(std::move(issue)) {}

Function::~Function() {
  if (graph)
    driver().cuGraphExecDestroy(graph);
}

void Function::enqueue() {
  context.collectives->beginFunction();
  issue();
  context.collectives->endFunction();
}

void Function::prepare() {
  context.collectives->announce(name.c_str());
  context.mode = Mode::Prepare;
  enqueue();
  context.mode = Mode::Enqueue;
  context.collectives->launched();
}

void Function::warmUp() {
  context.collectives->announce(name.c_str());
  enqueue();
  context.collectives->launched();
}

std::string Function::capture() {
  context.collectives->announce(name.c_str());
  // Other threads may call the driver meanwhile.
  check(driver().cuStreamBeginCapture(context.compute,
                                      CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        "beginning the capture of ", name);
  std::string refused;
  captured.clear();
  context.issued = &captured;
  try {
    enqueue();
  } catch (const Error &e) {
    refused = e.what();
  }
  context.issued = nullptr;
  CUgraph recorded = nullptr;
  CUresult result = driver().cuStreamEndCapture(context.compute, &recorded);
  if (refused.empty() && result != CUDA_SUCCESS)
    refused = "CUDA failed when capturing " + name + ": " + describe(result);
  if (recorded)
    traceGraph(recorded, name);
  if (refused.empty()) {
    // Else collectives run at the priority of the stream that the graph is
    // launched into, the lowest.
    result = driver().cuGraphInstantiate(
        &graph, recorded, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
    if (result == CUDA_SUCCESS)
      result = driver().cuGraphUpload(graph, context.compute);
    if (result != CUDA_SUCCESS)
      refused = "CUDA failed when making the graph of " + name + ": " +
                describe(result);
  }
  if (recorded)
    driver().cuGraphDestroy(recorded);
  if (!refused.empty() && graph) {
    driver().cuGraphExecDestroy(graph);
    graph = nullptr;
  }
  context.collectives->launched();
  return refused;
}

void Function::run() {
  context.collectives->announce(name.c_str());
  if (graph) {
    context.lastWork = name.c_str();
    check(driver().cuGraphLaunch(graph, context.compute),
          "launching the graph of ", name);
    if (context.issued)
      context.issued->insert(context.issued->end(), captured.begin(),
                             captured.end());
  } else {
    enqueue();
  }
  context.collectives->launched();
}

} // namespace shardonnx::rt::cuda
