// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See HostCopies.h.

#include "HostCopies.h"
#include "shardonnx/runtime/HostABI.h"

namespace shardonnx::rt::cuda {

HostCopies::HostCopies(Context &context, int64_t bytes)
    : context(context), memory(bytes, "offloaded activations") {}

HostCopies::Copy &HostCopies::at(size_t copy) {
  while (copies.size() <= copy)
    copies.emplace_back();
  return copies[copy];
}

void HostCopies::offloadStart(size_t copy, const void *buffer,
                              int64_t hostOffset, int64_t bytes) {
  Copy &c = at(copy);
  if (context.preparing())
    return;
  c.awayBegin.record(context.compute);
  c.awayBegin.wait(away);
  check(driver().cuMemcpyDtoHAsync(memory.data() + hostOffset,
                                   deviceAddress(buffer),
                                   static_cast<size_t>(bytes), away),
        "copying activations to the host");
  c.awayEnd.record(away);
}

void HostCopies::offloadWait(size_t copy) {
  if (!context.preparing())
    at(copy).awayEnd.wait(context.compute);
}

// Behind the offload_wait, so that the copy away is behind it, too.
void HostCopies::reloadStart(size_t copy, void *buffer, int64_t hostOffset,
                             int64_t bytes) {
  if (context.preparing())
    return;
  Copy &c = at(copy);
  c.backBegin.record(context.compute);
  c.backBegin.wait(back);
  check(driver().cuMemcpyHtoDAsync(deviceAddress(buffer),
                                   memory.data() + hostOffset,
                                   static_cast<size_t>(bytes), back),
        "copying activations to the GPU");
  c.backEnd.record(back);
}

void HostCopies::reloadWait(size_t copy) {
  if (!context.preparing())
    at(copy).backEnd.wait(context.compute);
}

} // namespace shardonnx::rt::cuda

using shardonnx::rt::cuda::contextOf;

void shx_offload_start(ShxContext *ctx, int64_t copy, const void *buffer,
                       int64_t hostOffset, int64_t bytes) {
  contextOf(ctx).hostCopies->offloadStart(static_cast<size_t>(copy), buffer,
                                          hostOffset, bytes);
}

void shx_offload_wait(ShxContext *ctx, int64_t copy) {
  contextOf(ctx).hostCopies->offloadWait(static_cast<size_t>(copy));
}

void shx_reload_start(ShxContext *ctx, int64_t copy, void *buffer,
                      int64_t hostOffset, int64_t bytes) {
  contextOf(ctx).hostCopies->reloadStart(static_cast<size_t>(copy), buffer,
                                         hostOffset, bytes);
}

void shx_reload_wait(ShxContext *ctx, int64_t copy) {
  contextOf(ctx).hostCopies->reloadWait(static_cast<size_t>(copy));
}
