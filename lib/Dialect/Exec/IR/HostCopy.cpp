// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies to host memory and back: what must hold of each. What must hold of
// their order, verify-exec says.

#include "shardonnx/Dialect/Exec/IR/Exec.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

static bool isIn(Value buffer, Space space) {
  Operation *root = rootOf(buffer).getDefiningOp();
  if (auto alloc = dyn_cast_or_null<AllocOp>(root))
    return alloc.getHost() == (space == Space::host);
  auto planned = dyn_cast_or_null<BufferOp>(root);
  return planned && planned.getSpace() == space;
}

template <typename Op> static LogicalResult verifyCopy(Op op) {
  if (!isIn(op.getHost(), Space::host))
    return op.emitOpError("needs a host buffer of its copy");
  if (!isIn(op.getBuffer(), Space::private_))
    return op.emitOpError("copies a buffer that is not private");
  if (!isContiguous(cast<MemRefType>(op.getBuffer().getType())))
    return op.emitOpError("copies a buffer that is not contiguous");
  return success();
}

LogicalResult OffloadStartOp::verify() { return verifyCopy(*this); }
LogicalResult ReloadStartOp::verify() { return verifyCopy(*this); }
