// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Launch.h. The launches of generated kernels are here, too.

#include "Launch.h"
#include "shardonnx/runtime/ByteSize.h"
#include "shardonnx/runtime/DependentLaunch.h"
#include <limits>

namespace shardonnx::rt::cuda {
namespace {

unsigned checked(int64_t value) {
  if (value < 0 || value > std::numeric_limits<int32_t>::max())
    fail("a kernel would need ", value,
         " blocks in one dimension, more than "
         "CUDA has: take a smaller batch");
  return static_cast<unsigned>(value);
}

// A kernel that begins with griddepcontrol.wait may begin while the one ahead
// of it, ours or a library's, ends: where that is all that it comes behind.
bool isBehindKernel(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUgraphNode *nodes = nullptr;
  const CUgraphEdgeData *edges = nullptr;
  size_t count = 0;
  check(driver().cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr,
                                        &nodes, &edges, &count),
        "asking what a kernel comes behind");
  if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE || count != 1)
    return false;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  check(driver().cuGraphNodeGetType(nodes[0], &type),
        "asking what a kernel comes behind");
  return type == CU_GRAPH_NODE_TYPE_KERNEL;
}

CUresult launchDependent(CUfunction function, CUstream stream, Dim grid,
                         Dim block, unsigned sharedBytes, void **arguments) {
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = {};
  config.gridDimX = grid.x;
  config.gridDimY = grid.y;
  config.gridDimZ = grid.z;
  config.blockDimX = block.x;
  config.blockDimY = block.y;
  config.blockDimZ = block.z;
  config.sharedMemBytes = sharedBytes;
  config.hStream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return driver().cuLaunchKernelEx(&config, function, arguments, nullptr);
}

void enqueue(Context &context, CUfunction function, CUstream stream,
             const char *kernel, Dim grid, Dim block, unsigned sharedBytes,
             void **arguments, int arch) {
  if (context.preparing() || grid.x == 0 || grid.y == 0 || grid.z == 0)
    return;
  if (stream == context.compute)
    context.lastWork = kernel;
  bool dependent = arch >= kDependentLaunchArch &&
                   stream == context.dependent && isBehindKernel(stream);
  check(dependent ? launchDependent(function, stream, grid, block, sharedBytes,
                                    arguments)
                  : driver().cuLaunchKernel(
                        function, grid.x, grid.y, grid.z, block.x, block.y,
                        block.z, sharedBytes, stream, arguments, nullptr),
        "launching kernel ", kernel);
}

} // namespace

Dim::Dim(int64_t x, int64_t y, int64_t z)
    : x(checked(x)), y(checked(y)), z(checked(z)) {}

void launchRaw(Context &context, CUstream stream, const char *kernel, Dim grid,
               Dim block, unsigned sharedBytes, void **arguments) {
  CUfunction function = context.runtimeImages->function(kernel, sharedBytes);
  enqueue(context, function, stream, kernel, grid, block, sharedBytes,
          arguments, context.runtimeImages->arch(kernel));
}

void copyBytes(Context &context, CUstream stream, void *to, const void *from,
               int64_t bytes) {
  if (context.preparing() || bytes == 0 || to == from)
    return;
  check(driver().cuMemcpyDtoDAsync(deviceAddress(to), deviceAddress(from),
                                   static_cast<size_t>(bytes), stream),
        "copying ", formatBytes(bytes), " on the GPU");
}

void launchGenerated(Context &context, const ShxDeviceKernel &kernel,
                     int64_t blocks, void **arguments) {
  auto shared = static_cast<unsigned>(kernel.sharedBytes);
  CUfunction function = context.programImages->function(kernel.name, shared);
  enqueue(context, function, context.compute, kernel.name, blocks,
          kernel.blockThreads, shared, arguments,
          context.programImages->arch(kernel.name));
}

void launchOptimizer(Context &context, const ShxDeviceKernel &kernel,
                     bool decay, const OptimizerBuffers &buffers) {
  float *scalars = decay ? context.cells.optimizerScalars
                         : context.cells.optimizerScalarsWithoutDecay;
  void *arguments[] = {
      parameter(buffers.master),      parameter(buffers.gradient),
      parameter(buffers.moments[0]),  parameter(buffers.moments[1]),
      parameter(buffers.params),      parameter(scalars),
      parameter(buffers.scales[0]),   parameter(buffers.scales[1]),
      parameter(buffers.piece.first), parameter(buffers.piece.begin),
      parameter(buffers.piece.end)};
  int64_t blocks = kernel.blocks
                       ? kernel.blocks
                       : blocksFor(buffers.piece.end, kernel.elementsPerBlock);
  launchGenerated(context, kernel, blocks, arguments);
}

} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

extern "C" void shx_launch_device(ShxContext *ctx,
                                  const ShxDeviceKernel *kernel,
                                  void *const *args) {
  constexpr int32_t kMaxArguments = 256;
  if (kernel->args > kMaxArguments)
    shardonnx::rt::fail("kernel ", kernel->name, " takes ", kernel->args,
                        " buffers, more than the runtime passes");
  // The driver wants the addresses of the parameters, each of which is one
  // pointer of `args`.
  void *addresses[kMaxArguments];
  for (int32_t i = 0; i < kernel->args; ++i)
    addresses[i] = parameter(args[i]);
  launchGenerated(contextOf(ctx), *kernel, kernel->blocks, addresses);
}
