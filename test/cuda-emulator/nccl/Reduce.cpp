// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums and the like of several buffers: half precision in f32, in rank order.

#include "Communicator.h"
#include "machine/Handlers.h"
#include <algorithm>

using namespace shardonnx::emulator;

unsigned shardonnx::emulator::bytesOf(ncclDataType_t type) {
  switch (type) {
  case ncclInt8:
  case ncclUint8:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclInt32:
  case ncclUint32:
  case ncclFloat32:
    return 4;
  case ncclInt64:
  case ncclUint64:
  case ncclFloat64:
    return 8;
  default:
    return 0;
  }
}

namespace {

template <class T> T loadAs(T value) { return value; }
float loadAs(Half value) { return toFloat(value); }
float loadAs(BFloat value) { return toFloat(value); }
template <class S, class C> S storeAs(C value) { return value; }
template <> Half storeAs<Half, float>(float value) { return toHalf(value); }
template <> BFloat storeAs<BFloat, float>(float value) {
  return toBFloat(value);
}

template <class C> C combine(C a, C b, ncclRedOp_t op) {
  switch (op) {
  case ncclProd:
    return static_cast<C>(a * b);
  case ncclMax:
    return std::max(a, b);
  case ncclMin:
    return std::min(a, b);
  default:
    return static_cast<C>(a + b);
  }
}

template <class S>
void reduceAs(char *to, const std::vector<const char *> &from, size_t count,
              ncclRedOp_t op) {
  using C = decltype(loadAs(S()));
  for (size_t i = 0; i < count; ++i) {
    S element;
    C sum{};
    for (size_t r = 0; r < from.size(); ++r) {
      std::memcpy(&element, from[r] + i * sizeof(S), sizeof(S));
      sum = r ? combine<C>(sum, loadAs(element), op) : loadAs(element);
    }
    if (op == ncclAvg)
      sum = static_cast<C>(sum / static_cast<C>(from.size()));
    element = storeAs<S, C>(sum);
    std::memcpy(to + i * sizeof(S), &element, sizeof(S));
  }
}

} // namespace

void shardonnx::emulator::reduce(char *to,
                                 const std::vector<const char *> &from,
                                 size_t count, ncclDataType_t type,
                                 ncclRedOp_t op) {
  switch (type) {
  case ncclInt8:
    return reduceAs<int8_t>(to, from, count, op);
  case ncclUint8:
    return reduceAs<uint8_t>(to, from, count, op);
  case ncclInt32:
    return reduceAs<int32_t>(to, from, count, op);
  case ncclUint32:
    return reduceAs<uint32_t>(to, from, count, op);
  case ncclInt64:
    return reduceAs<int64_t>(to, from, count, op);
  case ncclUint64:
    return reduceAs<uint64_t>(to, from, count, op);
  case ncclFloat16:
    return reduceAs<Half>(to, from, count, op);
  case ncclBfloat16:
    return reduceAs<BFloat>(to, from, count, op);
  case ncclFloat32:
    return reduceAs<float>(to, from, count, op);
  default:
    return reduceAs<double>(to, from, count, op);
  }
}
