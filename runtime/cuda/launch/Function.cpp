// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Function.h.

#include "Function.h"
#include "../../support/Error.h"
#include "../driver/CallTrace.h"
#include "Documents.h"

namespace shardonnx::rt::cuda {

Function::Function(Context &context, std::string name,
                   std::function<void()> issue)
    : context(context), name(std::move(name)), issue(std::move(issue)) {}

Function::~Function() { destroyGraphs(); }

void Function::destroyGraphs() {
  for (Recording &recording : recordings)
    if (recording.graph) {
      driver().cuGraphExecDestroy(recording.graph);
      recording.graph = nullptr;
    }
}

void Function::enqueue() {
  context.collectives->beginFunction();
  issue();
  context.collectives->endFunction();
}

void Function::prepare() {
  context.collectives->announce(name.c_str());
  context.mode = Mode::Prepare;
  context.documentsFit = context.documents != nullptr;
  context.tookDocuments = false;
  enqueue();
  context.documentsFit = false;
  takesDocuments = context.tookDocuments;
  if (takesDocuments)
    enqueue();
  context.mode = Mode::Enqueue;
  context.collectives->launched();
}

void Function::warmUp() {
  context.collectives->announce(name.c_str());
  context.documentsFit = takesDocuments;
  enqueue();
  context.collectives->launched();
}

std::string Function::capture() {
  std::string refused;
  for (bool fit : {false, true}) {
    context.documentsFit = fit;
    if (refused.empty() && (!fit || takesDocuments))
      refused = capture(recording());
  }
  context.documentsFit = false;
  if (!refused.empty())
    destroyGraphs();
  return refused;
}

std::string Function::capture(Recording &recording) {
  context.collectives->announce(name.c_str());
  // Other threads may call the driver meanwhile.
  check(driver().cuStreamBeginCapture(context.compute,
                                      CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        "beginning the capture of ", name);
  std::string refused;
  recording.captured.clear();
  context.issued = &recording.captured;
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
        &recording.graph, recorded,
        CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
    if (result == CUDA_SUCCESS)
      result = driver().cuGraphUpload(recording.graph, context.compute);
    if (result != CUDA_SUCCESS)
      refused = "CUDA failed when making the graph of " + name + ": " +
                describe(result);
  }
  if (recorded)
    driver().cuGraphDestroy(recorded);
  context.collectives->launched();
  return refused;
}

void Function::run() {
  context.collectives->announce(name.c_str());
  context.documentsFit = takesDocuments && context.documents->fit();
  const Recording &recorded = recording();
  if (recorded.graph) {
    context.lastWork = name.c_str();
    check(driver().cuGraphLaunch(recorded.graph, context.compute),
          "launching the graph of ", name);
    if (context.issued)
      context.issued->insert(context.issued->end(), recorded.captured.begin(),
                             recorded.captured.end());
  } else {
    enqueue();
  }
  context.collectives->launched();
}

} // namespace shardonnx::rt::cuda
