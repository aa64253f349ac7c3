// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One of the program's functions on the device: prepared once, captured into a
// graph, and then launched with one call; or, where capture is refused, issued
// anew each time. Where cuDNN takes documents there is a second way, and a
// second graph, for microbatches that have more than it was planned for.

#ifndef SHARDONNX_RUNTIME_CUDA_FUNCTION_H
#define SHARDONNX_RUNTIME_CUDA_FUNCTION_H

#include "Context.h"
#include <functional>
#include <string>

namespace shardonnx::rt::cuda {

class Function {
public:
  /// `issue` makes the calls of the ABI.
  Function(Context &context, std::string name, std::function<void()> issue);
  ~Function();
  Function(const Function &) = delete;
  Function &operator=(const Function &) = delete;

  void prepare();
  /// Enqueues it for once as it is, so that libraries load and connect what
  /// they leave to their first use.
  void warmUp();
  /// Returns why it was refused, or nothing.
  std::string capture();
  void run();

private:
  struct Recording {
    CUgraphExec graph = nullptr;
    std::vector<IssuedCollective> captured; // in the graph
  };

  void enqueue();
  std::string capture(Recording &recording);
  void destroyGraphs();
  /// By whether the documents fit.
  Recording &recording() { return recordings[context.documentsFit]; }

  Context &context;
  const std::string name;
  const std::function<void()> issue;
  bool takesDocuments = false; // by cuDNN, where they fit
  Recording recordings[2];
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_FUNCTION_H
